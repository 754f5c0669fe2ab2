package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Files of a repository that is no folder. They are read in blocks, or brought
// whole to this machine for the worker; both are kept in the cache.

// object is a stored file in the words of the cache.
func (p published) object(s stored) cache.Object {
	return cache.Object{Source: p.e.store, Space: p.e.space, Key: s.path, Size: s.size, SHA256: s.sum}
}

// known is the object with its size, which the store is asked for where
// nothing says it.
func (p published) known(ctx context.Context, s stored) (cache.Object, error) {
	o := p.object(s)
	if o.Size >= 0 {
		return o, nil
	}
	ctx, cancel := context.WithTimeout(ctx, headLimit)
	defer cancel()
	info, err := p.e.store.Head(ctx, s.path)
	if err != nil {
		return o, err
	}
	o.Size, o.Version = info.Size, string(info.Version)
	if o.SHA256 == "" {
		o.SHA256 = info.SHA256
	}
	return o, nil
}

// headLimit is how long a store may take to describe an object.
const headLimit = 30 * time.Second

// openRemote opens a file to be read in places: the whole file where the cache
// has it and knows it to be right, else its blocks.
func (p published) openRemote(ctx context.Context, s stored) (File, error) {
	o, err := p.known(ctx, s)
	if err != nil {
		return nil, p.failed(s.path, err)
	}
	if l := p.e.cache.Cached(o); l != nil {
		return newLocalFile(l.File())
	}
	if blobstore.WholeOnly(ctx, p.e.store, o.Key) {
		// Each block would bring the whole file again.
		l, err := p.e.cache.Local(ctx, o)
		if err == nil {
			return newLocalFile(l.File())
		}
		if !errors.Is(err, cache.ErrNoRoom) {
			return nil, p.failed(s.path, err)
		}
	}
	r, err := p.e.cache.Open(o)
	if err != nil {
		return nil, err
	}
	return &remoteFile{r, p, s.path}, nil
}

// openRemoteFile opens a file of a version's folder. They are small and read
// whole, so the whole is brought, and compared with its sum on the way.
func (p published) openRemoteFile(ctx context.Context, key, sum string) (File, error) {
	if sum == "" {
		return p.openRemote(ctx, stored{key, -1, ""})
	}
	l, err := p.e.cache.Local(ctx, p.object(stored{key, -1, sum}))
	if errors.Is(err, cache.ErrNoRoom) {
		return p.openRemote(ctx, stored{key, -1, sum})
	}
	if err != nil {
		return nil, p.failed(key, err)
	}
	p.e.verified.Store(key, struct{}{})
	return newLocalFile(l.File())
}

// bring is localPath of a file that is elsewhere.
func (p published) bring(ctx context.Context, s stored) (string, error) {
	o, err := p.known(ctx, s)
	if err != nil {
		return "", p.failed(s.path, err)
	}
	path, err := p.bringObject(ctx, o)
	if errors.Is(err, blobstore.ErrNotExist) {
		return "", missingData(s.path, err)
	}
	return path, p.failed(s.path, err)
}

func (p published) bringObject(ctx context.Context, o cache.Object) (string, error) {
	l, err := p.e.cache.Local(ctx, o)
	if err != nil {
		return "", err
	}
	p.e.hold(ctx, l)
	return l.Path(), nil
}

// failed says what it means that an object could not be read.
func (p published) failed(key string, err error) error {
	var known *outcome.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, blobstore.ErrNotExist):
		return err
	case errors.Is(err, cache.ErrSize), errors.Is(err, cache.ErrSum), errors.Is(err, blobstore.ErrCorrupt):
		return outcome.Wrap(outcome.Damaged, key+" is damaged", err, "restore the file from a copy of the repository; tarn verify --data lists what is damaged")
	case errors.Is(err, cache.ErrNoRoom) && p.e.cacheErr != nil:
		return p.e.cacheErr
	case errors.Is(err, cache.ErrNoRoom):
		return outcome.Wrap(outcome.Full, "no room for "+key+" in the cache "+p.e.cache.Dir(), err, "free some space there, or allow more: cache_size; tarn cache says what it holds")
	case errors.Is(err, cache.ErrStalled), errors.Is(err, blobstore.ErrTemporary), errors.Is(err, context.DeadlineExceeded):
		return outcome.Wrap(outcome.Unreachable, "cannot read "+key+" from "+p.e.URL(), err, "check the network and the store, then try again")
	}
	return fmt.Errorf("read %s: %w", key, err)
}

// remoteFile is a File over blocks of the cache.
type remoteFile struct {
	*cache.Reader
	p   published
	key string
}

// Fd: there is no file.
func (f *remoteFile) Fd() (uintptr, bool) { return 0, false }

func (f *remoteFile) ReadAt(b []byte, off int64) (int, error) {
	return f.ReadAtContext(context.Background(), b, off)
}

// ReadAtContext gives up a little after ctx ends.
func (f *remoteFile) ReadAtContext(ctx context.Context, b []byte, off int64) (int, error) {
	n, err := f.Reader.ReadAtContext(ctx, b, off)
	if err == nil || n == len(b) || off+int64(n) == f.Size() {
		return n, err
	}
	if errors.Is(err, blobstore.ErrNotExist) {
		return n, missingData(f.key, err)
	}
	return n, f.p.failed(f.key, err)
}

// holdKey is where a context has its hold.
type holdKey struct{}

// holdSet keeps whole files of the cache where they are.
type holdSet struct {
	mu   sync.Mutex // guards list
	list []*cache.Local
}

// holding gives a context under which files that are brought for the worker
// stay until done is called: after the worker's answer.
func (e *Engine) holding(ctx context.Context) (_ context.Context, done func()) {
	if _, ok := ctx.Value(holdKey{}).(*holdSet); ok {
		return ctx, func() {} // a part of a larger request
	}
	h := &holdSet{}
	return context.WithValue(ctx, holdKey{}, h), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, l := range h.list {
			if err := l.Close(); err != nil {
				e.log.Warn("give back a file of the cache", keyPath, l.Path(), keyErr, err)
			}
		}
		h.list = nil
	}
}

// looseHold is how long a file is held for who does not say when it is done:
// longer than a request to the worker may take.
const looseHold = 30 * time.Minute

func (e *Engine) hold(ctx context.Context, l *cache.Local) {
	h, ok := ctx.Value(holdKey{}).(*holdSet)
	if !ok {
		time.AfterFunc(looseHold, func() { _ = l.Close() })
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, l)
}
