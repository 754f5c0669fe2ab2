package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
)

const (
	maxMoving = 4 << 10 // bytes of a ref or HEAD
	maxSwap   = 8 << 20 // bytes of what is replaced as a whole, in memory
)

// condition is what a PUT says of the object's present state.
type condition struct {
	have   blobstore.Version // to be replaced; empty: nothing may be there
	strict bool              // nothing, not even the same content
}

// readCondition wants exactly one condition, of the kind that we have.
func readCondition(h http.Header) (condition, error) {
	match, none := h.Values("If-Match"), h.Values("If-None-Match")
	switch {
	case len(match)+len(none) == 0:
		return condition{}, no(http.StatusPreconditionRequired, "", "a write needs If-None-Match: * or If-Match: ETAG")
	case len(match)+len(none) > 1:
		return condition{}, no(http.StatusBadRequest, "", "a write has one condition")
	case len(none) == 1 && none[0] == "*":
		return condition{strict: h.Get(blobstore.HeaderPut) == blobstore.PutSwap}, nil
	case len(none) == 1:
		return condition{}, no(http.StatusBadRequest, "", "If-None-Match of a write is *")
	}
	v, ok := versionOf(match[0])
	if !ok { // no object has such a version: it is another server's, or none at all
		return condition{}, no(http.StatusPreconditionFailed, "", "no object has this version")
	}
	return condition{have: v}, nil
}

// write answers PUT.
func (s *Server) write(a *answer, r *http.Request, key string, k kind) error {
	cond, err := readCondition(r.Header)
	if err != nil {
		return err
	}
	sum := strings.ToLower(r.Header.Get(blobstore.HeaderSHA256))
	swap := cond.have != "" || cond.strict
	switch {
	case r.ContentLength < 0:
		return no(http.StatusLengthRequired, "", "the length is not said")
	case r.ContentLength > s.o.MaxObject,
		k == kindMoving && r.ContentLength > maxMoving,
		swap && r.ContentLength > maxSwap:
		return no(http.StatusRequestEntityTooLarge, blobstore.CodeTooLarge, fmt.Sprintf("%d bytes are too many for this object", r.ContentLength))
	case sum != "" && !isSum(sum):
		return no(http.StatusBadRequest, "", blobstore.HeaderSHA256+" is not a hash in hex")
	case r.Header.Get("Content-Range") != "" || r.Header.Get("Content-Encoding") != "":
		return no(http.StatusBadRequest, "", "an object is written whole and as it is")
	case k == kindOnce && cond.have != "":
		return no(http.StatusForbidden, "", "this object is write-once")
	}
	u := &upload{from: arriving{a}, size: r.ContentLength, sum: sum, dir: s.o.Spool}
	defer u.drop()
	v, err := s.put(a, key, k, cond, u)
	if err != nil {
		if errors.Is(err, blobstore.ErrExists) && swap {
			err = fmt.Errorf("%w (%w)", errFolder, err)
		}
		return wrap("write", key, err)
	}
	a.Header().Set("ETag", etag(v))
	a.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) put(a *answer, key string, k kind, cond condition, u *upload) (blobstore.Version, error) {
	ctx := a.r.Context()
	// Before the body is read where it must be looked at anyway; else when the
	// store wants it: what is there already need not be sent.
	swap := cond.have != "" || cond.strict
	if swap || k == kindMoving || u.sum == "" {
		if err := u.take(); err != nil {
			return "", err
		}
	}
	stop := a.working(u.isTaken)
	defer stop()
	if k == kindMoving {
		if err := s.checkMoving(ctx, key, u.data); err != nil {
			return "", err
		}
		free, err := s.lockRefs(ctx)
		if err != nil {
			return "", err
		}
		defer free()
	}
	if !swap {
		return s.store.PutIfAbsent(ctx, key, blobstore.Body{Size: u.size, SHA256: u.sum, Open: u.open})
	}
	data, err := u.all()
	if err != nil {
		return "", err
	}
	return s.store.PutIfMatch(ctx, key, cond.have, data)
}

// checkMoving refuses what a ref or HEAD may not hold, and a ref to a version
// that is not there.
func (s *Server) checkMoving(ctx context.Context, key string, data []byte) error {
	text := strings.TrimSpace(string(data))
	if key == "HEAD" {
		name, ok := strings.CutPrefix(text, "ref: ")
		ref, err := repo.ParseRefName(name)
		if _, isBranch := ref.Branch(); !ok || err != nil || !isBranch {
			return no(http.StatusBadRequest, "", "HEAD names a branch: ref: refs/heads/NAME")
		}
		return nil
	}
	id, err := repo.ParseID(text)
	if err != nil {
		return no(http.StatusBadRequest, "", "a ref holds the ID of a version")
	}
	switch _, err := s.store.Head(ctx, repo.VersionKey(id, repo.VersionFile)); {
	case errors.Is(err, blobstore.ErrNotExist):
		return no(http.StatusConflict, "", "the version that the ref would name is not there")
	case err != nil:
		return err
	}
	return nil
}

// lockRefs is for what must not come between the two steps of a removal.
func (s *Server) lockRefs(ctx context.Context) (free func(), err error) {
	select {
	case s.refs <- struct{}{}:
		return func() { <-s.refs }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remove answers DELETE.
func (s *Server) remove(a *answer, r *http.Request, key string, k kind) error {
	ctx := r.Context()
	stop := a.working(func() bool { return true })
	defer stop()
	switch {
	case key == "HEAD":
		return no(http.StatusForbidden, "", "HEAD stays")
	case k == kindMoving:
		free, err := s.lockRefs(ctx)
		if err != nil {
			return err
		}
		defer free()
		if err := s.sameRef(ctx, r.Header.Get("If-Match"), key); err != nil {
			return err
		}
	case k == kindOnce:
		info, err := s.store.Head(ctx, key)
		if errors.Is(err, blobstore.ErrNotExist) {
			break
		}
		if err != nil {
			return wrap("delete", key, err)
		}
		if time.Since(info.ModTime) < s.grace {
			return no(http.StatusForbidden, "", "the object is younger than the repository's grace period")
		}
	}
	if err := s.store.Delete(ctx, key); err != nil {
		return wrap("delete", key, err)
	}
	stop()
	a.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) sameRef(ctx context.Context, match, key string) error {
	if match == "" {
		return no(http.StatusPreconditionRequired, "", "a ref is removed with If-Match: ETAG")
	}
	v, ok := versionOf(match)
	info, err := s.store.Head(ctx, key)
	switch {
	case errors.Is(err, blobstore.ErrNotExist):
		return nil
	case err != nil:
		return wrap("delete", key, err)
	case !ok || info.Version != v:
		return no(http.StatusPreconditionFailed, "", "the ref has moved")
	}
	return nil
}

// bodyFault is a body that did not come as it was announced.
func bodyFault(err error) error {
	f := &failure{http.StatusBadRequest, "", "the body broke off", err}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		f.status, f.message = http.StatusRequestTimeout, "the body did not come in time"
	}
	return f
}
