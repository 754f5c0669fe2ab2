package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/sync/semaphore"
)

// bucket is a store in a bucket of a cloud, over gocloud.dev/blob. What that
// library does not say, conditions of writes above all, is the provider's part
// (s3.go, gs.go, azblob.go). Each call here is tried once: repeating is the
// business of Retrying.
//
// An object's sha256 goes along as metadata, so that two equal objects are
// told without reading them.
type bucket struct {
	root   string // URL, without parameters
	prefix string // of every key in the bucket: empty, or ends in a slash
	b      *blob.Bucket
	p      provider
	memory *semaphore.Weighted // bytes that uploads may hold
	close  func()
}

// provider is what differs between the kinds of buckets.
type provider interface {
	// writing prepares a write: its condition, and how its version is learnt.
	writing(ctx context.Context, w *upload) (context.Context, func(as func(any) bool) error)
	// reading makes a read conditional on a version.
	reading(v Version) func(as func(any) bool) error
	// read, attributes and listed describe an object, but for its key. The
	// version may be missing in a list.
	read(r *blob.Reader) Info
	attributes(a *blob.Attributes) Info
	listed(o *blob.ListObject) Info
	// listing asks for what listed needs.
	listing() func(as func(any) bool) error
	// renew gives the object that info describes the present time.
	renew(ctx context.Context, key string, info Info) error
	// possible reports whether an object could have this version. The others
	// are not sent: a server may ignore what it cannot parse.
	possible(v Version) bool
	// find looks for the server's reply in an error.
	find(err error) (reply, bool)
}

// upload is one write of an object.
type upload struct {
	key  string  // in the bucket
	have Version // the version to replace; empty: nothing may be there
	size int64
	// after says how the upload ended once the library says it did: with the
	// object's version, empty when the reply did not tell.
	after func() (Version, error)
}

const (
	contentType = "application/octet-stream"
	metaSHA     = "sha256" // name of the metadata that holds the hash in hex

	// partSize is of parts in bytes, both ways. An upload of at least
	// manyParts of them goes in parts.
	partSize  = 8 << 20
	manyParts = 16 << 20
	// parallelParts of one upload are sent at a time.
	parallelParts = 4
	// maxParts is below each provider's limit (S3 and R2: 10,000).
	maxParts = 9000
	// uploadMemory bounds the bytes that all uploads of a store hold.
	uploadMemory = 256 << 20

	// lookFirst is the size in bytes from which a create asks whether the
	// object is there before it sends it: a refusal comes after the last byte.
	lookFirst = 1 << 20
	// createTries bounds the repetition of a create that was refused because
	// of an object that is gone when we look.
	createTries = 5
)

var (
	_ Store  = (*bucket)(nil)
	_ parter = (*bucket)(nil)
)

func newBucket(u cloudURL, b *blob.Bucket, p provider, close func()) *bucket {
	prefix := u.prefix
	if prefix != "" {
		prefix += "/"
	}
	return &bucket{root: u.root(), prefix: prefix, b: b, p: p, memory: semaphore.NewWeighted(uploadMemory), close: close}
}

func (s *bucket) networked() {}

// URL is scheme, bucket and prefix.
func (s *bucket) URL() string { return s.root }

// Close lets the connections go.
func (s *bucket) Close() error {
	err := s.b.Close()
	if s.close != nil {
		s.close()
	}
	return err
}

func (s *bucket) translate(ctx context.Context, err error) error {
	return cloudError(ctx, s.root, err, s.p.find)
}

// Get opens the whole object.
func (s *bucket) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	r, info, err := s.part(ctx, key, 0, -1, "")
	if err != nil {
		return nil, Info{}, fmt.Errorf("read %s: %w", key, err)
	}
	return r, info, nil
}

// GetRange reads n bytes from off.
func (s *bucket) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, _, err := s.part(ctx, key, off, n, "")
	if err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", key, off, err)
	}
	return r, nil
}

// part is GetRange, with the object's description from the same answer. Of
// another version than v, when that is not empty, it is ErrConflict.
func (s *bucket) part(ctx context.Context, key string, off, n int64, v Version) (io.ReadCloser, Info, error) {
	if err := asked(ctx, key); err != nil {
		return nil, Info{}, err
	}
	if off < 0 {
		return nil, Info{}, fmt.Errorf("%w: negative offset", os.ErrInvalid)
	}
	// Providers cannot say "no bytes", and some cannot parse what no object
	// reaches; an overflow of off+n would be ours.
	const farther = 1 << 50
	if n == 0 || off > farther {
		return s.nothing(ctx, key, off)
	}
	if n > farther {
		n = -1
	}
	opts := &blob.ReaderOptions{}
	if v != "" {
		opts.BeforeRead = s.p.reading(v)
	}
	r, err := s.b.NewRangeReader(ctx, s.prefix+key, off, n, opts)
	if err != nil {
		err = s.translate(ctx, err)
		switch {
		case errors.Is(err, errRange):
			return s.nothing(ctx, key, off)
		case v != "" && (errors.Is(err, errCondition) || errors.Is(err, ErrNotExist)):
			return nil, Info{}, fmt.Errorf("%w: it changed while it was read", ErrConflict)
		}
		return nil, Info{}, err
	}
	info := s.p.read(r)
	info.Key, info.Size, info.ModTime = key, r.Size(), seconds(r.ModTime())
	want := info.Size - off
	if n >= 0 {
		want = min(n, want)
	}
	if v != "" && info.Version != v { // a server that ignores the condition
		r.Close()
		return nil, Info{}, fmt.Errorf("%w: it changed while it was read", ErrConflict)
	}
	return &cloudReader{ctx: ctx, r: r, left: want, s: s}, info, nil
}

// nothing is a range without bytes of an object that must be there.
func (s *bucket) nothing(ctx context.Context, key string, off int64) (io.ReadCloser, Info, error) {
	info, err := s.head(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	return io.NopCloser(strings.NewReader("")), info, nil
}

// cloudReader is the body of an answer. It wants all bytes that were announced
// and says in the words of this package what becomes of it.
type cloudReader struct {
	ctx  context.Context
	r    io.ReadCloser
	left int64
	s    *bucket
}

func (r *cloudReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, r.s.translate(r.ctx, err)
	case r.left > 0:
		return n, r.s.translate(r.ctx, io.ErrUnexpectedEOF)
	}
	return n, io.EOF
}

func (r *cloudReader) Close() error { return r.r.Close() }

// Head describes the object.
func (s *bucket) Head(ctx context.Context, key string) (Info, error) {
	info, err := s.head(ctx, key)
	if err != nil {
		return Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	return info, nil
}

func (s *bucket) head(ctx context.Context, key string) (Info, error) {
	if err := asked(ctx, key); err != nil {
		return Info{}, err
	}
	a, err := s.b.Attributes(ctx, s.prefix+key)
	if err != nil {
		return Info{}, s.translate(ctx, err)
	}
	info := s.p.attributes(a)
	info.Key, info.Size, info.ModTime = key, a.Size, seconds(a.ModTime)
	if info.SHA256 == "" {
		info.SHA256 = a.Metadata[metaSHA]
	}
	return info, nil
}

// seconds is a time as every answer tells it: HTTP headers leave out what a
// list tells more exactly.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// asked refuses what need not be sent.
func asked(ctx context.Context, key string) error {
	if err := ValidKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

// Delete removes the object.
func (s *bucket) Delete(ctx context.Context, key string) error {
	err := asked(ctx, key)
	if err == nil {
		err = s.translate(ctx, s.b.Delete(ctx, s.prefix+key))
	}
	if err == nil || errors.Is(err, ErrNotExist) {
		return nil
	}
	return fmt.Errorf("delete %s: %w", key, err)
}

// List yields the objects once all are known: providers sort by the form in
// which a key is stored, where odd characters are escaped, and who merges two
// lists must not meet them elsewhere.
func (s *bucket) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return onceKnown(ctx, prefix, s.all)
}

// onceKnown is a list that begins when all finds every object.
func onceKnown(ctx context.Context, prefix string, all func(context.Context, string) ([]Info, error)) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		found, err := all(ctx, prefix)
		if err != nil {
			yield(Info{}, fmt.Errorf("list %s: %w", prefix, err))
			return
		}
		for _, info := range found {
			if err := ctx.Err(); err != nil {
				yield(Info{Key: info.Key}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (s *bucket) all(ctx context.Context, prefix string) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	objects := s.b.List(&blob.ListOptions{Prefix: s.prefix + prefix, BeforeList: s.p.listing()})
	var found []Info
	sorted := true
	for {
		o, err := objects.Next(ctx)
		// Not errors.Is: a connection that broke off is an EOF too, inside the
		// library's error, and must not end a list as if that were all.
		if err == io.EOF {
			break
		}
		if err != nil {
			err = s.translate(ctx, err)
			if errors.Is(err, ErrNotExist) { // of a key there is no word in the request
				err = fmt.Errorf("%w (%w)", ErrNoBucket, err)
			}
			return nil, err
		}
		info := s.p.listed(o)
		info.Key, info.Size, info.ModTime = strings.TrimPrefix(o.Key, s.prefix), o.Size, seconds(o.ModTime)
		if ValidKey(info.Key) != nil {
			continue // a "folder" that some tool has made, or not ours at all
		}
		sorted = sorted && (len(found) == 0 || found[len(found)-1].Key < info.Key)
		found = append(found, info)
	}
	if !sorted {
		slices.SortFunc(found, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	}
	return found, nil
}
