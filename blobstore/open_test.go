package blobstore_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

func TestOpenFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my lake #1 100%.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(dir))
	if err := os.Mkdir("a:b", 0o755); err != nil {
		t.Fatal(err)
	}
	escaped := strings.NewReplacer("%", "%25", "#", "%23", " ", "%20").Replace(dir)
	for url, want := range map[string]string{
		dir:                          dir,
		dir + "/":                    dir,
		"./my lake #1 100%.d":        dir,
		"file://" + escaped:          dir,
		"file:" + escaped + "/":      dir,
		"FILE://localhost" + escaped: dir,
		"a:b":                        filepath.Join(filepath.Dir(dir), "a:b"),
	} {
		s, err := blobstore.Open(t.Context(), url, nil)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if s.URL() != want {
			t.Errorf("%s: URL %s, want %s", url, s.URL(), want)
		}
		files, ok := blobstore.As[blobstore.LocalFiles](s)
		if !ok || files.Dir() != want {
			t.Errorf("%s: no local files in %s", url, want)
		}
		s.Close()
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for url, want := range map[string]error{
		"":                                  blobstore.ErrNotExist,
		dir + "/missing":                    blobstore.ErrNotExist,
		"file://" + dir + "/missing":        blobstore.ErrNotExist,
		"file://elsewhere" + dir:            blobstore.ErrUnsupported,
		"file://" + dir + "?query":          blobstore.ErrUnsupported,
		"file://" + dir + "#fragment":       blobstore.ErrUnsupported,
		"file:relative":                     blobstore.ErrUnsupported,
		"file://%zz":                        blobstore.ErrUnsupported,
		"s3://bucket/prefix?secret=hunter2": blobstore.ErrBadURL,
		"http://me:hunter2@host/lake":       blobstore.ErrBadURL,
		"https://me:hunter2@host/lake":      blobstore.ErrBadURL,
		"https://host/lake?token=hunter2":   blobstore.ErrBadURL,
		"http://host/lake?insecure=hunter2": blobstore.ErrBadURL,
		"https://host/a/../hunter2":         blobstore.ErrBadURL,
		"https:///lake":                     blobstore.ErrBadURL,
		"gopher://host?secret=hunter2":      blobstore.ErrUnsupported,
		"file://me:hunter2@host/":           blobstore.ErrUnsupported,
	} {
		s, err := blobstore.Open(t.Context(), url, nil)
		wantIs(t, url, err, want)
		if s != nil {
			t.Errorf("%s: a store beside the error: %v", url, s)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a secret: %v", err)
		}
		scheme, _, isURL := strings.Cut(url, "://")
		if isURL && !strings.Contains(err.Error(), scheme) {
			t.Errorf("%s: the error does not name the scheme: %v", url, err)
		}
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("made %q", got)
	}
}

func TestOpenCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "lake")
	ro := &blobstore.Options{Create: true, ReadOnly: true}
	_, err := blobstore.Open(t.Context(), dir, ro)
	wantIs(t, "create, read-only", err, blobstore.ErrNotExist)
	for range 2 { // the second finds it
		s, err := blobstore.Open(t.Context(), dir, &blobstore.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}

func TestOpenReadOnly(t *testing.T) {
	l := newLocal(t)
	v := blobtest.Create(t, l, "a", "x")
	s, err := blobstore.Open(t.Context(), l.Dir(), &blobstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.PutIfAbsent(t.Context(), "b", blobstore.BytesBody(nil))
	wantIs(t, "create", err, blobstore.ErrReadOnly)
	_, err = s.PutIfAbsent(t.Context(), "a", blobstore.BytesBody([]byte("x")))
	wantIs(t, "create of what is there", err, blobstore.ErrReadOnly)
	_, err = s.PutIfMatch(t.Context(), "a", v, nil)
	wantIs(t, "swap", err, blobstore.ErrReadOnly)
	wantIs(t, "delete", s.Delete(t.Context(), "a"), blobstore.ErrReadOnly)
	_, err = blobstore.PutIfAbsentConfirmed(t.Context(), s, "b", blobstore.BytesBody(nil))
	wantIs(t, "confirmed create", err, blobstore.ErrReadOnly)
	wantIs(t, "probe", blobstore.Probe(t.Context(), s), blobstore.ErrReadOnly)
	if got, info := blobtest.Read(t, s, "a"); string(got) != "x" || info.Version != v {
		t.Errorf("read %q %+v", got, info)
	}
	if got := blobtest.Keys(t, s, ""); len(got) != 1 {
		t.Errorf("keys %q", got)
	}
	files, ok := blobstore.As[blobstore.LocalFiles](s)
	if !ok {
		t.Fatal("no local files behind the wrapper")
	}
	f, err := files.OpenFile("a")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestOpenMem(t *testing.T) {
	one, err := blobstore.Open(t.Context(), "mem:"+t.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	blobtest.Create(t, one, "a", "x")
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]int{
		"mem:" + t.Name(): 1, "mem://" + t.Name(): 1, "mem:" + t.Name() + "/other": 0, "mem:": 0, "mem://": 0,
	} {
		s, err := blobstore.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(blobtest.Keys(t, s, "")); got != want {
			t.Errorf("%s: %d objects, want %d", url, got, want)
		}
		if url == "mem:" {
			blobtest.Create(t, s, "a", "x") // the next nameless store is another
		}
	}
	if _, ok := blobstore.As[blobstore.LocalFiles](one); ok {
		t.Error("memory has local files")
	}
}

func TestOpenLogs(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := blobstore.Open(t.Context(), t.TempDir(), &blobstore.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	blobtest.Create(t, s, "some/key", "canary content")
	_, err = s.Head(t.Context(), "other")
	wantIs(t, "head", err, blobstore.ErrNotExist)
	blobtest.Keys(t, s, "so")
	for _, want := range []string{
		"op=create key=some/key n=14", "op=head key=other", "object does not exist", "op=list key=so n=1", "level=DEBUG", "took=",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "canary") {
		t.Errorf("the log shows content:\n%s", out.String())
	}
}
