package serve

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
)

// kind is what an object is to the rules of writing.
type kind int

const (
	kindNone    kind = iota // no object of the repository
	kindRoot                // the root itself: lists
	kindFormat              // fdl.json: written by init alone
	kindMoving              // HEAD and refs: change on condition
	kindOnce                // versions and data files: created, never changed
	kindScratch             // a probe's, a claim, the mark of a garbage collection: anything on condition
)

// layout tells the keys of a repository from whatever else is in its store.
type layout struct{ dataDir string }

// find is the key that a request names. Each segment of the path is decoded
// by itself, so that an escaped slash stays in its segment, where no key can
// have one; net/http would clean "..", which is refused.
func (l layout) find(r *http.Request) (string, kind, error) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if path == "" {
		return "", kindRoot, nil
	}
	// A folder of the repository can be opened as a store, too: its lists are
	// of what is below it.
	path, folder := strings.CutSuffix(path, "/")
	segments := strings.Split(path, "/")
	for i, seg := range segments {
		plain, err := url.PathUnescape(seg)
		if err != nil || strings.Contains(plain, "/") {
			return "", kindNone, no(http.StatusBadRequest, blobstore.CodeKey, "the path is not one of an object")
		}
		segments[i] = plain
	}
	key := strings.Join(segments, "/")
	if blobstore.ValidKey(key) != nil {
		return "", kindNone, no(http.StatusBadRequest, blobstore.CodeKey, "the path is not one of an object")
	}
	if folder {
		return key + "/", kindRoot, nil
	}
	return key, l.kind(key), nil
}

func (l layout) kind(key string) kind {
	switch {
	case key == "fdl.json":
		return kindFormat
	case key == "HEAD":
		return kindMoving
	case strings.HasPrefix(key, blobstore.ProbePrefix), strings.HasPrefix(key, repo.ClaimPrefix), key == repo.GCMarkFile:
		// The mark must be seen here, too: a push that slept waits while it is there.
		return kindScratch
	case strings.HasPrefix(key, "refs/"):
		if _, err := repo.ParseRefName(key); err != nil {
			return kindNone
		}
		return kindMoving
	case strings.HasPrefix(key, l.dataDir):
		return kindOnce
	}
	if rest, ok := strings.CutPrefix(key, "versions/"); ok {
		folder, name, _ := strings.Cut(rest, "/")
		if id, err := repo.ParseID(folder); err == nil && string(id) == folder && name != "" {
			return kindOnce
		}
	}
	return kindNone
}

// shows reports whether a key is the repository's.
func (l layout) shows(key string) bool { return l.kind(key) != kindNone }
