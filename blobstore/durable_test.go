package blobstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

// syncLog writes down what a call makes durable: "new content" is a file that
// no key names yet, "object" the file of key, a folder its path.
type syncLog struct {
	t     testing.TB
	l     *blobstore.Local
	key   string
	lines []string
}

func (s *syncLog) see(f *os.File) {
	info, err := f.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	object, err := os.Stat(filepath.Join(s.l.Dir(), s.key))
	there := err == nil
	if info.IsDir() {
		rel, err := filepath.Rel(s.l.Dir(), f.Name())
		if err != nil {
			s.t.Fatal(err)
		}
		if !there {
			rel += " (no object)"
		}
		s.lines = append(s.lines, rel)
		return
	}
	if there && os.SameFile(info, object) {
		s.lines = append(s.lines, "object")
		return
	}
	s.lines = append(s.lines, "new content")
}

func (s *syncLog) take() string {
	lines := strings.Join(s.lines, ", ")
	s.lines = nil
	return lines
}

// What a call has answered for survives a power cut: content before its name,
// the name's folder after it, and the entry of each folder above.
func TestLocalSyncs(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *blobstore.Local{
		"local": newLocal,
		"every fallback": func(t testing.TB) *blobstore.Local {
			l := newLocal(t)
			blobstore.LackAll(l)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			log := &syncLog{t: t, l: l, key: "a/b/one"}
			blobstore.OnSync(l, log.see)
			want := func(what, want string) {
				t.Helper()
				if diff := cmp.Diff(want, log.take()); diff != "" {
					t.Errorf("%s syncs (-want +got):\n%s", what, diff)
				}
			}
			blobtest.Create(t, l, "a/b/one", "1")
			want("create", "new content, a/b, a, .")
			blobtest.Create(t, l, "a/b/one", "1")
			want("create of the same again", "object, a/b")
			_, err := l.PutIfAbsent(t.Context(), "a/b/one", blobstore.BytesBody([]byte("2")))
			wantIs(t, "create", err, blobstore.ErrExists)
			want("a refused create", "object, a/b")

			log.key = "a/b/two"
			blobtest.Create(t, l, "a/b/two", "2")
			want("create in a known folder", "new content, a/b")

			path := filepath.Join(filepath.Dir(l.Dir()), "source")
			write(t, path, "3")
			log.key = "a/b/three"
			if _, err := l.PutIfAbsent(t.Context(), "a/b/three", blobstore.FileBody(path, 1, "")); err != nil {
				t.Fatal(err)
			}
			want("create from a file", "new content, a/b")

			log.key = "refs/main"
			v, err := l.PutIfMatch(t.Context(), "refs/main", "", []byte("1"))
			if err != nil {
				t.Fatal(err)
			}
			want("swap from nothing", "new content, refs, .")
			if _, err = l.PutIfMatch(t.Context(), "refs/main", v, []byte("2")); err != nil {
				t.Fatal(err)
			}
			want("swap", "new content, refs")
			_, err = l.PutIfMatch(t.Context(), "refs/main", v, []byte("3"))
			wantIs(t, "swap", err, blobstore.ErrConflict)
			want("a refused swap", "object, refs")
			if err := l.Delete(t.Context(), "refs/main"); err != nil {
				t.Fatal(err)
			}
			want("delete", "refs (no object)")

			// A store opened anew cannot know who made the folders.
			again, err := blobstore.OpenLocal(l.Dir())
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			blobstore.OnSync(again, log.see)
			log.key = "a/b/one"
			blobtest.Create(t, again, "a/b/one", "1")
			want("the first create of a store", "object, a/b, a, .")

			// Nor can one whose folder was pruned and made by another.
			log.key = "p/q/x"
			blobtest.Create(t, again, "p/q/x", "1")
			if err := l.Delete(t.Context(), "p/q/x"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(l.Dir(), "p/q"), 0o755); err != nil {
				t.Fatal(err)
			}
			log.take()
			blobtest.Create(t, again, "p/q/x", "1")
			want("create in a folder made anew", "new content, p/q, p")
		})
	}
}
