package blobstore_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

// digits is an object whose bytes tell where they are.
func digits(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.String()[:n]
}

const mtime = "Mon, 12 Oct 2026 14:03:05 GMT"

// oneFile answers every path with content, as serve says.
func oneFile(t testing.TB, serve func(w http.ResponseWriter, r *http.Request, content string)) (blobstore.Store, string) {
	t.Helper()
	content := digits(1 << 20)
	url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding %q", got)
		}
		for _, h := range []string{"If-None-Match", "If-Modified-Since", "If-Range"} {
			if r.Header.Get(h) != "" {
				t.Errorf("a read carries %s", h)
			}
		}
		serve(w, r, content)
	}))
	return openHTTP(t, url, nil), content
}

func openHTTP(t testing.TB, url string, o *blobstore.Options) blobstore.Store {
	t.Helper()
	if o == nil {
		o = &blobstore.Options{Patience: blobstore.Patience{Budget: -1, Silence: 5 * time.Second}}
	}
	s, err := blobstore.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func serveFile(w http.ResponseWriter, r *http.Request, content string) {
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

// whole is a server that knows no ranges, as Python's http.server.
func wholeFile(w http.ResponseWriter, content string) {
	w.Header().Set("Last-Modified", mtime)
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = io.WriteString(w, content)
}

// TestPlainServers: what servers were seen to do, and what is made of it. The
// right bytes, or an error; never wrong bytes.
func TestPlainServers(t *testing.T) {
	for _, test := range []struct {
		name  string
		serve func(w http.ResponseWriter, r *http.Request, content string)
		err   error // of every read in places; nil: right bytes
	}{
		{"ranges and a strong ETag", func(w http.ResponseWriter, r *http.Request, content string) {
			w.Header().Set("ETag", `"5f-1"`)
			serveFile(w, r, content)
		}, nil},
		{"ranges without an ETag", serveFile, nil},
		{"a weak ETag", func(w http.ResponseWriter, r *http.Request, content string) {
			if r.Header.Get("If-Match") != "" {
				t.Error("a weak ETag is used as a condition")
			}
			w.Header().Set("ETag", `W/"5f-1"`)
			serveFile(w, r, content)
		}, nil},
		{"Range is ignored, no ETag", func(w http.ResponseWriter, r *http.Request, content string) { wholeFile(w, content) }, nil},
		{"Range is ignored, with an ETag", func(w http.ResponseWriter, r *http.Request, content string) {
			w.Header().Set("ETag", `"5f-1"`)
			wholeFile(w, content)
		}, nil},
		{"another range than asked for", func(w http.ResponseWriter, r *http.Request, content string) {
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-99/%d", len(content)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = io.WriteString(w, content[:100])
				return
			}
			wholeFile(w, content)
		}, nil},
		{"206 without Content-Range", func(w http.ResponseWriter, r *http.Request, content string) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, content[:100])
		}, blobstore.ErrCorrupt},
		{"several ranges in one answer", func(w http.ResponseWriter, r *http.Request, content string) {
			if r.Header.Get("Range") != "" {
				r.Header.Set("Range", "bytes=0-9,20-29")
			}
			serveFile(w, r, content)
		}, nil},
		{"compressed although identity was asked for", func(w http.ResponseWriter, r *http.Request, content string) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, content)
			z.Close()
			w.Header().Set("Content-Encoding", "gzip")
			wholeFile(w, b.String())
		}, blobstore.ErrCorrupt},
		{"no length", func(w http.ResponseWriter, r *http.Request, content string) {
			for _, part := range []string{content[:1000], content[1000:]} {
				_, _ = io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		}, blobstore.ErrCorrupt},
		{"the answer breaks off", func(w http.ResponseWriter, r *http.Request, content string) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = io.WriteString(w, content[:4])
		}, blobstore.ErrTemporary},
		{"403 for what is not there", func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Error(w, "no", http.StatusForbidden)
		}, blobstore.ErrPermission},
		{"404 with a page", func(w http.ResponseWriter, r *http.Request, _ string) { http.NotFound(w, r) }, blobstore.ErrNotExist},
		{"500", func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Error(w, "oops", http.StatusInternalServerError)
		}, blobstore.ErrTemporary},
		{"redirected for ever", func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}, blobstore.ErrBadURL},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, content := oneFile(t, test.serve)
			for range 2 { // the second time it is known what the server does
				for _, at := range []struct{ off, n int64 }{{0, -1}, {0, 10}, {5, 100}, {1 << 19, 300_000}, {1<<20 - 5, 100}, {1 << 20, 5}, {1 << 21, -1}, {7, 0}} {
					want := content[min(at.off, 1<<20):]
					if at.n >= 0 {
						want = want[:min(at.n, int64(len(want)))]
					}
					r, err := s.GetRange(t.Context(), "data/x", at.off, at.n)
					var got []byte
					if err == nil {
						got, err = io.ReadAll(r)
						r.Close()
					}
					empty := at.n == 0 || at.off >= 1<<20
					switch {
					case test.err == nil && (err != nil || string(got) != want):
						t.Errorf("%d+%d: %d bytes, %v, want %d", at.off, at.n, len(got), err, len(want))
					case test.err != nil && err == nil && (!empty || len(got) > 0):
						t.Errorf("%d+%d: %d bytes, no error, want %v", at.off, at.n, len(got), test.err)
					case test.err != nil && !empty:
						wantIs(t, fmt.Sprintf("%d+%d", at.off, at.n), err, test.err)
					}
				}
			}
		})
	}
}

// TestPlainIsReadOnly: nothing is sent that would change a plain server, and
// its pages are not taken for lists.
func TestPlainIsReadOnly(t *testing.T) {
	ctx := t.Context()
	url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			t.Errorf("%s %s was sent", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, `<a href="refs/">{"objects": []}</a>`)
	}))
	for _, first := range []string{"a write", "a read"} {
		s := openHTTP(t, url, nil)
		if first == "a read" {
			blobtest.Read(t, s, "HEAD")
		}
		_, err := s.PutIfAbsent(ctx, "data/x", blobstore.BytesBody([]byte("x")))
		wantIs(t, "create", err, blobstore.ErrReadOnly)
		_, err = s.PutIfMatch(ctx, "HEAD", "", []byte("x"))
		wantIs(t, "swap from nothing", err, blobstore.ErrReadOnly)
		_, err = s.PutIfMatch(ctx, "HEAD", `"tag"`, []byte("x"))
		wantIs(t, "swap", err, blobstore.ErrReadOnly)
		wantIs(t, "delete", s.Delete(ctx, "HEAD"), blobstore.ErrReadOnly)
		wantIs(t, "probe", blobstore.Probe(ctx, s), blobstore.ErrReadOnly)
		for _, err := range s.List(ctx, "refs/") {
			wantIs(t, "list", err, blobstore.ErrUnsupported)
		}
	}
}

// TestChangedWhileRead: an object that is replaced between two ranges is
// never put together from both.
func TestChangedWhileRead(t *testing.T) {
	for _, condition := range []bool{true, false} { // the server honours If-Match
		var state atomic.Int32
		const size = 40 << 20
		var matched atomic.Int32
		url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := state.Load()
			if r.Header.Get("If-Match") != "" {
				matched.Add(1)
			}
			if !condition {
				r.Header.Del("If-Match")
			}
			w.Header().Set("ETag", fmt.Sprintf(`"state-%d"`, n))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(bytes.Repeat([]byte{byte('a' + n)}, size)))
		}))
		s := openHTTP(t, url, &blobstore.Options{Patience: blobstore.Patience{Budget: 200 * time.Millisecond}})
		r, info, err := s.Get(t.Context(), "data/x")
		if err != nil || info.Size != size {
			t.Fatal(info, err)
		}
		state.Store(1)
		got, err := io.ReadAll(r)
		r.Close()
		if err == nil && len(got) == size && (bytes.ContainsRune(got, 'b') && bytes.ContainsRune(got, 'a')) {
			t.Error("a mixture of two states was read")
		}
		if err != nil {
			wantIs(t, "read", err, blobstore.ErrConflict)
		}
		if matched.Load() == 0 {
			t.Error("no range named the state that it is of")
		}
	}
}

// TestWholeOnly: a large object of a server without ranges is read once.
func TestWholeOnly(t *testing.T) {
	content := digits(30 << 20)
	var asked atomic.Int32
	url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		wholeFile(w, content)
	}))
	s := openHTTP(t, url, nil)
	for range 2 { // asked, then remembered
		if !blobstore.WholeOnly(t.Context(), s, "x") {
			t.Fatal("it is not seen that the server has no ranges")
		}
	}
	asked.Store(0)
	if got, _ := blobtest.Read(t, s, "x"); string(got) != content || asked.Load() != 1 {
		t.Errorf("%d bytes in %d requests, want %d in 1", len(got), asked.Load(), len(content))
	}
	fresh := openHTTP(t, url, nil)
	if got, _ := blobtest.Read(t, fresh, "x"); string(got) != content {
		t.Errorf("%d bytes, want %d", len(got), len(content))
	}
	if blobstore.WholeOnly(t.Context(), blobstore.NewMem(), "x") {
		t.Error("memory has no ranges")
	}
}

// TestHashOfServer: bytes that are not those the server has the hash of are
// damage.
func TestHashOfServer(t *testing.T) {
	s, _ := oneFile(t, func(w http.ResponseWriter, r *http.Request, content string) {
		w.Header().Set(blobstore.HeaderSHA256, blobstore.BytesBody([]byte("other")).SHA256)
		wholeFile(w, content)
	})
	r, _, err := s.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = io.ReadAll(r)
	wantIs(t, "read", err, blobstore.ErrCorrupt)
}

// TestToken: where the token comes from, where it goes, and that it is shown
// nowhere.
func TestToken(t *testing.T) {
	const secret = "canary-0b1c2d3e4f"
	file := filepath.Join(t.TempDir(), "tokens")
	var got atomic.Value
	got.Store("")
	see := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth := r.Header.Get("Authorization"); strings.Contains(r.URL.String(), secret) || auth != "" && auth != "Bearer "+secret {
			t.Errorf("%s with %q", r.URL, auth)
		}
		got.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
	})
	other := newServer(t, see)
	here := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/away") {
			http.Redirect(w, r, other+"/x", http.StatusFound)
			return
		}
		see(w, r)
	}))
	host := strings.TrimPrefix(here, "http://")
	for _, test := range []struct {
		name, env, lines, key string
		sent                  bool
	}{
		{"none", "", "", "x", false},
		{"environment", secret, "", "x", true},
		{"environment before file", secret, "wrong-token", "x", true},
		{"file", "", "# comment\n\n" + secret + "\n", "x", true},
		{"file, this host", "", "elsewhere:1 wrong-token\n" + host + " " + secret + "\n", "x", true},
		{"file, another host", "", "elsewhere:1 " + secret + "\n", "x", false},
		{"redirected to another server", secret, "", "away/x", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("TARN_TOKEN", test.env)
			t.Setenv("TARN_TOKEN_FILE", "")
			if test.lines != "" {
				write(t, file, test.lines)
				t.Setenv("TARN_TOKEN_FILE", file)
			}
			s := openHTTP(t, here, nil)
			_, err := s.Head(t.Context(), test.key)
			wantIs(t, "head", err, blobstore.ErrPermission)
			if sent := got.Load() != ""; sent != test.sent {
				t.Errorf("sent: %v, want %v", sent, test.sent)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %s", err, err, s.URL()), secret) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}

	t.Setenv("TARN_TOKEN", secret)
	s := openHTTP(t, "http://lake.example/x", nil)
	_, err := s.Head(t.Context(), "HEAD")
	wantIs(t, "unencrypted", err, blobstore.ErrPermission)
	if !strings.Contains(err.Error(), "unencrypted") {
		t.Errorf("not refused for being unencrypted: %v", err)
	}
	t.Setenv("TARN_TOKEN", secret+"\nX-Other: header")
	_, err = blobstore.Open(t.Context(), here, nil)
	wantIs(t, "a token with a line break", err, blobstore.ErrPermission)
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("the error shows the token: %v", err)
	}
	t.Setenv("TARN_TOKEN", "")
	t.Setenv("TARN_TOKEN_FILE", file+"-missing")
	_, err = blobstore.Open(t.Context(), here, nil)
	wantIs(t, "a missing file", err, blobstore.ErrPermission)
}

// TestListsOfServer: a list that is cut short or is of something else is no
// list.
func TestListsOfServer(t *testing.T) {
	entry := `{"key": "refs/heads/main", "size": 37, "modified": "2026-10-12T14:03:05Z"}`
	for body, want := range map[string]error{
		`{"objects": [` + entry + `]}`: nil,
		`{"objects": []}`:              nil,
		`{"objects": [` + entry:        blobstore.ErrTemporary,
		`{"objects": [` + entry + `,`:  blobstore.ErrTemporary,
		`{"objects": [` + entry + `]`:  blobstore.ErrTemporary,
		``:                             blobstore.ErrTemporary,
		`<html>`:                       blobstore.ErrCorrupt,
		`{"objects": [{"key": "../../etc/passwd"}]}`:          blobstore.ErrCorrupt,
		`{"objects": [{"key": "data/x", "size": 1}]}`:         blobstore.ErrCorrupt,
		`{"objects": [{"key": "refs/heads/x", "size": "1"}]}`: blobstore.ErrCorrupt,
	} {
		url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("list") != "refs/" {
				t.Errorf("asked for %s", r.URL)
			}
			w.Header().Set(blobstore.HeaderServe, "1")
			_, _ = io.WriteString(w, body)
		}))
		var err error
		for _, err = range openHTTP(t, url, nil).List(t.Context(), "refs/") {
			if err != nil {
				break
			}
		}
		if want == nil && err == nil {
			continue
		}
		wantIs(t, body, err, want)
	}
}

// TestPythonServer reads a folder behind python3 -m http.server.
func TestPythonServer(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		missing(t, "python3")
	}
	dir := t.TempDir()
	content := digits(300_000)
	for name, text := range map[string]string{"fdl.json": "{}", "refs/heads/main": "x\n", "data/a b/ü.parquet": content, "empty": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), text)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), python, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", dir, "0")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(line[:n]), "(")
	address, _, _ := strings.Cut(rest, ")")
	if _, err := url.Parse(address); err != nil || !strings.HasPrefix(address, "http://") {
		t.Fatalf("it says %q", line[:n])
	}
	s := openHTTP(t, strings.TrimSuffix(address, "/"), nil)
	if got, info := blobtest.Read(t, s, "refs/heads/main"); string(got) != "x\n" || info.Version == "" || info.Size != 2 {
		t.Errorf("ref %q %+v", got, info)
	}
	for _, at := range []struct{ off, n int64 }{{0, -1}, {100, 50}, {299_990, 50}, {300_000, 10}} {
		r, err := s.GetRange(t.Context(), "data/a b/ü.parquet", at.off, at.n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		want := content[at.off:]
		if at.n >= 0 {
			want = want[:min(at.n, int64(len(want)))]
		}
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%+v: %v %s", at, err, diff)
		}
	}
	if got, _ := blobtest.Read(t, s, "empty"); len(got) != 0 {
		t.Errorf("empty: %q", got)
	}
	for _, key := range []string{"missing", "data/missing/x"} {
		_, err = s.Head(t.Context(), key)
		wantIs(t, key, err, blobstore.ErrNotExist)
	}
	_, err = s.PutIfAbsent(t.Context(), "new", blobstore.BytesBody(nil))
	wantIs(t, "create", err, blobstore.ErrReadOnly)
}
