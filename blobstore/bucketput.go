package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"gocloud.dev/blob"
)

// renewAge is the age from which an object that a create finds there is given
// the present time. A garbage collection by age must spare what somebody has
// just put; it never takes what is younger than a grace period, of which this
// is a small part.
var renewAge = time.Minute // a variable for tests alone

// PutIfAbsent creates the object.
func (s *bucket) PutIfAbsent(ctx context.Context, key string, b Body) (Version, error) {
	v, err := s.create(ctx, key, b)
	if err != nil {
		return "", fmt.Errorf("create %s: %w", key, err)
	}
	return v, nil
}

func (s *bucket) create(ctx context.Context, key string, b Body) (Version, error) {
	if err := asked(ctx, key); err != nil {
		return "", err
	}
	b, err := b.hashed(ctx) // the hash goes before the content
	if err != nil {
		return "", err
	}
	if b.Size >= lookFirst {
		if v, there, err := s.found(ctx, key, b); there || err != nil {
			return v, err
		}
	}
	for range createTries {
		v, err := s.send(ctx, &upload{key: s.prefix + key, size: b.Size}, b)
		if !errors.Is(err, errCondition) {
			return v, err
		}
		// Somebody was first; perhaps we, with a try whose answer was lost.
		if v, there, err := s.found(ctx, key, b); there || err != nil {
			return v, err
		}
	}
	return "", fmt.Errorf("%w: the object comes and goes", ErrTemporary)
}

// found compares an object that is there with the body.
func (s *bucket) found(ctx context.Context, key string, b Body) (v Version, there bool, err error) {
	info, err := s.head(ctx, key)
	switch {
	case errors.Is(err, ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, err
	case info.Size != b.Size:
		return "", true, ErrExists
	case info.SHA256 == "": // put by another tool
		r, read, err := s.part(ctx, key, 0, -1, "")
		if err != nil {
			return "", true, err
		}
		defer r.Close()
		same, err := b.sameAs(ctx, r)
		if err == nil && !same {
			err = ErrExists
		}
		if err != nil {
			return "", true, err
		}
		info.Version = read.Version
	case info.SHA256 != b.SHA256:
		return "", true, ErrExists
	}
	if time.Since(info.ModTime) < renewAge {
		return info.Version, true, nil
	}
	v, err = s.renew(ctx, key, info, b)
	switch {
	case errors.Is(err, ErrNotExist), errors.Is(err, errCondition):
		return "", false, nil // deleted or replaced meanwhile: begin again
	case err != nil:
		return "", true, fmt.Errorf("renew its age: %w", err)
	}
	return v, true, nil
}

// renew gives an object the present time and returns its version, which may be
// another one then.
func (s *bucket) renew(ctx context.Context, key string, old Info, b Body) (Version, error) {
	err := s.p.renew(ctx, s.prefix+key, old)
	if err == nil {
		info, err := s.head(ctx, key)
		if err != nil || info.ModTime.After(old.ModTime) {
			return info.Version, err
		}
		old = info // some servers copy an object onto itself without touching it
	} else if !errors.Is(err, errAnotherWay) {
		return "", s.translate(ctx, err)
	}
	return s.send(ctx, &upload{key: s.prefix + key, have: old.Version, size: b.Size}, b)
}

// PutIfMatch replaces the object if its version is have.
func (s *bucket) PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	v, err := s.swap(ctx, key, have, data)
	if err != nil {
		return "", fmt.Errorf("swap %s: %w", key, err)
	}
	return v, nil
}

func (s *bucket) swap(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	if err := asked(ctx, key); err != nil {
		return "", err
	}
	// An empty If-Match is answered by several servers as if there were none.
	// Below, an empty version means "must not exist" and nothing else.
	if have != "" && !s.p.possible(have) {
		return "", ErrConflict
	}
	v, err := s.send(ctx, &upload{key: s.prefix + key, have: have, size: int64(len(data))}, BytesBody(data))
	switch {
	case errors.Is(err, errCondition):
		return "", fmt.Errorf("%w (%w)", ErrConflict, err)
	case have != "" && errors.Is(err, ErrNotExist): // S3 answers 404 where the object is gone
		return "", ErrConflict
	}
	return v, err
}

// send uploads a body whose hash is known, on the upload's condition. Nothing
// becomes visible unless size and hash of what was read are those announced.
func (s *bucket) send(ctx context.Context, w *upload, b Body) (Version, error) {
	v, err := Version(""), errAnotherWay
	if p, ok := s.p.(wholePutter); ok && w.size < manyParts {
		v, err = s.sendWhole(ctx, p, w, b)
	}
	if errors.Is(err, errAnotherWay) {
		v, err = s.sendParts(ctx, w, b)
	}
	if err != nil || v != "" {
		return v, err
	}
	// The library dropped the reply. What is there now is ours if its hash is.
	a, err := s.b.Attributes(ctx, w.key)
	if err != nil {
		return "", s.translate(ctx, err)
	}
	info := s.p.attributes(a)
	if a.Metadata[metaSHA] != b.SHA256 {
		return "", fmt.Errorf("%w: replaced as soon as it was written", ErrConflict)
	}
	return info.Version, nil
}

// sendWhole sends a body that is one request, compared before it is sent.
func (s *bucket) sendWhole(ctx context.Context, p wholePutter, w *upload, b Body) (Version, error) {
	weight := w.size + 64<<10
	if err := s.memory.Acquire(ctx, weight); err != nil {
		return "", err
	}
	defer s.memory.Release(weight)
	data, free, err := b.inMemory()
	if err != nil {
		return "", err
	}
	v, err := p.putWhole(ctx, w, data, b.SHA256)
	switch {
	case err == nil:
		free()
		return v, nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case errors.Is(err, errAnotherWay):
		return "", err
	}
	return "", s.translate(ctx, err)
}

// sendParts sends a body by the library: in parts, streamed, when it is large.
func (s *bucket) sendParts(ctx context.Context, w *upload, b Body) (Version, error) {
	part := max(partSize, (w.size+maxParts-1)/maxParts)
	weight := min(2*w.size+64<<10, int64(uploadMemory))
	if w.size >= manyParts {
		weight = min(part*(parallelParts+1)+2*manyParts, uploadMemory)
	}
	if err := s.memory.Acquire(ctx, weight); err != nil {
		return "", err
	}
	defer s.memory.Release(weight)

	if w.size < manyParts {
		// Compared before anything is sent: an upload that is broken off in its
		// only request may have been taken all the same.
		data, _, err := b.inMemory() // not given back: a broken connection may still read it
		if err != nil {
			return "", err
		}
		b = Body{Size: b.Size, SHA256: b.SHA256, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
	}
	r, err := b.reader()
	if err != nil {
		return "", err
	}
	defer r.Close()
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src := &checkedReader{r: r, body: b, h: sha256.New(), abort: cancel}
	ctx, before := s.p.writing(ctx, w)
	err = s.b.Upload(ctx, w.key, src, &blob.WriterOptions{
		BufferSize: int(part), MaxConcurrency: parallelParts,
		ContentType: contentType, // else 512 bytes are held back to guess it
		Metadata:    map[string]string{metaSHA: b.SHA256},
		IfNotExist:  w.have == "",
		BeforeWrite: before,
	})
	var v Version
	if err == nil {
		v, err = w.after()
	}
	switch {
	case err == nil:
		return v, nil
	case outer.Err() != nil:
		return "", fmt.Errorf("interrupted: %w", context.Cause(outer))
	case src.err != nil: // the caller's own trouble, as it was
		return "", src.err
	}
	return "", s.translate(outer, err)
}

// checkedReader is a body on its way. Before it says that it has ended it
// makes sure that it was what was announced; when it was not it aborts the
// upload, which some libraries would else complete with what they have.
type checkedReader struct {
	r     io.Reader
	body  Body
	h     hash.Hash
	n     int64
	abort func()
	err   error
}

func (c *checkedReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, &sourceError{c.err}
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.h.Write(p[:n])
	switch {
	case c.n > c.body.Size:
		c.err = c.body.verify(c.n, c.h)
	case errors.Is(err, io.EOF):
		if c.err = c.body.verify(c.n, c.h); c.err == nil {
			return n, io.EOF
		}
	case err != nil:
		c.err = err
	default:
		return n, nil
	}
	c.abort()
	return 0, &sourceError{c.err}
}
