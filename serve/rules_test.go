package serve_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/serve"
)

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// newID is a version's.
func newID(t testing.TB) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// TestRulesOfWriting: what may be written where, with which condition.
func TestRulesOfWriting(t *testing.T) {
	s := newServed(t, kinds["folder"](t), serve.Options{})
	create := map[string]string{"If-None-Match": "*"}
	strict := map[string]string{"If-None-Match": "*", blobstore.HeaderPut: blobstore.PutSwap}
	id := newID(t)
	blobtest.Create(t, s.store, "secret.txt", "canary-in-the-folder")
	blobtest.Create(t, s.store, "versions/"+id+"/"+repo.VersionFile, "{}")
	t.Cleanup(func() { _ = s.store.Delete(t.Context(), "versions/"+id+"/"+repo.VersionFile) })
	blobtest.Create(t, s.store, "data/old/x", "first")
	blobtest.Create(t, s.store, "refs/tags/there", id+"\n")

	for _, test := range []struct {
		name, method, path string
		header             map[string]string
		body               string
		want               int
	}{
		{"a data file", "PUT", "/data/new/x", create, "x", 200},
		{"again, the same", "PUT", "/data/new/x", create, "x", 200},
		{"again, other content", "PUT", "/data/new/x", create, "y", 412},
		{"a data file without condition", "PUT", "/data/new/y", nil, "x", 428},
		{"over a data file without condition", "PUT", "/data/old/x", nil, "x", 428},
		{"over a data file with a condition", "PUT", "/data/old/x", map[string]string{"If-Match": "ETAG"}, "x", 403},
		{"over a data file with any condition", "PUT", "/data/old/x", map[string]string{"If-Match": "*"}, "x", 412},
		{"two conditions", "PUT", "/data/new/z", map[string]string{"If-None-Match": "*", "If-Match": `"x"`}, "x", 400},
		{"a condition of another kind", "PUT", "/data/new/z", map[string]string{"If-None-Match": `"x"`}, "x", 400},
		{"a wrong hash", "PUT", "/data/new/z", map[string]string{"If-None-Match": "*", blobstore.HeaderSHA256: sum([]byte("other"))}, "x", 400},
		{"no hash at all", "PUT", "/data/new/z", map[string]string{"If-None-Match": "*", blobstore.HeaderSHA256: "xyz"}, "x", 400},
		{"a part of an object", "PUT", "/data/new/z", map[string]string{"If-None-Match": "*", "Content-Range": "bytes 0-0/2"}, "x", 400},
		{"a file of a version", "PUT", "/versions/" + newID(t) + "/dataset.json", create, "{}", 200},
		{"a file of no version", "PUT", "/versions/latest/dataset.json", create, "{}", 403},
		{"a ref without condition", "PUT", "/refs/heads/new", nil, id, 428},
		{"a ref to a version", "PUT", "/refs/heads/new", strict, id, 200},
		{"a ref that is there", "PUT", "/refs/heads/new", strict, id, 412},
		{"a ref to nothing", "PUT", "/refs/heads/x", strict, newID(t), 409},
		{"a ref of no ID", "PUT", "/refs/heads/x", strict, "hello", 400},
		{"a ref of no name", "PUT", "/refs/heads/x..y", strict, id, 403},
		{"a large ref", "PUT", "/refs/heads/x", strict, id + strings.Repeat(" ", 5000), 413},
		{"a ref with its state", "PUT", "/refs/heads/new", map[string]string{"If-Match": "ETAG"}, id + "\n", 200},
		{"a ref with a stale state", "PUT", "/refs/heads/new", map[string]string{"If-Match": `"c3RhbGU"`}, id, 412},
		{"a ref with no ETag of ours", "PUT", "/refs/heads/new", map[string]string{"If-Match": `"stale!"`}, id, 412},
		{"HEAD to a branch", "PUT", "/HEAD", map[string]string{"If-Match": "ETAG"}, "ref: refs/heads/new\n", 200},
		{"HEAD to a tag", "PUT", "/HEAD", map[string]string{"If-Match": "ETAG"}, "ref: refs/tags/there\n", 400},
		{"HEAD without condition", "PUT", "/HEAD", nil, "ref: refs/heads/main\n", 428},
		{"fdl.json", "PUT", "/fdl.json", map[string]string{"If-Match": "ETAG"}, "{}", 403},
		{"the mark of a garbage collection", "PUT", "/tarn-gc.json", strict, "{}", 200},
		{"the mark, read by a push", "GET", "/tarn-gc.json", nil, "", 200},
		{"the mark, swapped", "PUT", "/tarn-gc.json", map[string]string{"If-Match": "ETAG"}, `{"beat": 2}`, 200},
		{"the mark, swapped from a stale state", "PUT", "/tarn-gc.json", map[string]string{"If-Match": `"c3RhbGU"`}, "{}", 412},
		{"the mark, removed", "DELETE", "/tarn-gc.json", nil, "", 204},
		{"anything else", "PUT", "/notes.txt", create, "x", 403},
		{"a name of the folder store", "PUT", "/.tarn-lock", create, "x", 400},
		{"remove a young data file", "DELETE", "/data/old/x", nil, "", 403},
		{"remove what is not there", "DELETE", "/data/none", nil, "", 204},
		{"remove a ref", "DELETE", "/refs/tags/there", nil, "", 428},
		{"remove a ref in another state", "DELETE", "/refs/tags/there", map[string]string{"If-Match": `"c3RhbGU"`}, "", 412},
		{"remove a ref in its state", "DELETE", "/refs/tags/there", map[string]string{"If-Match": "ETAG"}, "", 204},
		{"remove HEAD", "DELETE", "/HEAD", map[string]string{"If-Match": "ETAG"}, "", 403},
		{"remove fdl.json", "DELETE", "/fdl.json", nil, "", 403},
		{"remove something else", "DELETE", "/secret.txt", nil, "", 403},
		{"read something else", "GET", "/secret.txt", nil, "", 404},
		{"read out of the folder", "GET", "/data/../secret.txt", nil, "", 400},
		{"read out of the folder, escaped", "GET", "/data/%2e%2e/secret.txt", nil, "", 400},
		{"read with an escaped slash", "GET", "/data%2fold%2fx", nil, "", 400},
		{"read from the root", "GET", "//etc/passwd", nil, "", 400},
		{"the root", "GET", "/", nil, "", 404},
		{"a folder", "GET", "/data", nil, "", 404},
		{"another method", "POST", "/data/old/x", nil, "", 405},
		{"another method", "PATCH", "/HEAD", nil, "", 405},
	} {
		header := map[string]string{}
		for k, v := range test.header {
			if v == "ETAG" {
				v = s.do("HEAD", test.path, readToken, nil, nil).Header.Get("ETag")
			}
			header[k] = v
		}
		resp := s.do(test.method, test.path, writeToken, header, []byte(test.body))
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != test.want || resp.Header.Get(blobstore.HeaderServe) == "" {
			t.Errorf("%s: %s %s: %d %s, want %d", test.name, test.method, test.path, resp.StatusCode, text, test.want)
		}
		noSecret(t, test.name, string(text))
	}
	if got, _ := blobtest.Read(t, s.store, "data/old/x"); string(got) != "first" {
		t.Errorf("a write-once object is now %q", got)
	}
	list, _ := io.ReadAll(s.do("GET", "/?list=", readToken, nil, nil).Body)
	if strings.Contains(string(list), "secret.txt") || !strings.Contains(string(list), "data/old/x") {
		t.Errorf("list:\n%s", list)
	}
}

// TestRights: who may what; a wrong token gets nothing, whatever others may.
func TestRights(t *testing.T) {
	for _, test := range []struct {
		name        string
		lines       string
		readOnly    bool
		token       string
		read, write int
		metrics     int
	}{
		{"write", "write a " + writeToken, false, writeToken, 200, 200, 200},
		{"write on a read-only server", "write a " + writeToken, true, writeToken, 200, 403, 200},
		{"read", "read a " + readToken, false, readToken, 200, 403, 200},
		{"metrics", "metrics a " + readToken, false, readToken, 403, 403, 200},
		{"hashed", "write a sha256:" + sum([]byte(writeToken)), false, writeToken, 200, 200, 200},
		{"none", "read a " + readToken, false, "", 401, 401, 401},
		{"wrong", "read a " + readToken, false, readToken + "x", 401, 401, 401},
		{"the hash itself", "write a sha256:" + sum([]byte(writeToken)), false, sum([]byte(writeToken)), 401, 401, 401},
		{"everybody reads", "read everybody *\nwrite a " + writeToken, false, "", 200, 401, 401},
		{"everybody reads, wrong", "read everybody *\nwrite a " + writeToken, false, "wrong-wrong-wrong", 401, 401, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := t.TempDir() + "/tokens"
			writeFile(t, file, test.lines)
			s := newServed(t, blobstore.NewMem(), serve.Options{Tokens: file, ReadOnly: test.readOnly, Metrics: true})
			if got := s.do("GET", "/HEAD", test.token, nil, nil).StatusCode; got != test.read {
				t.Errorf("read: %d, want %d", got, test.read)
			}
			if got := s.do("PUT", "/data/x", test.token, map[string]string{"If-None-Match": "*"}, []byte("x")).StatusCode; got != test.write {
				t.Errorf("write: %d, want %d", got, test.write)
			}
			if got := s.do("GET", "/?list=", test.token, nil, nil).StatusCode; got != test.read {
				t.Errorf("list: %d, want %d", got, test.read)
			}
			if got := s.do("GET", "/metrics", test.token, map[string]string{"X-Forwarded-For": "10.1.2.3"}, nil).StatusCode; got != test.metrics {
				t.Errorf("metrics: %d, want %d", got, test.metrics)
			}
		})
	}
}

// TestNoTokens: without a file everybody reads and nobody writes.
func TestNoTokens(t *testing.T) {
	store := blobstore.NewMem()
	if _, err := repo.Init(t.Context(), store, repo.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	h, err := serve.New(t.Context(), store, serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url := newServer(t, h)
	s, err := blobstore.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	blobtest.Read(t, s, "HEAD")
	_, err = s.PutIfAbsent(t.Context(), "data/x", blobstore.BytesBody([]byte("x")))
	if !isErr(err, blobstore.ErrReadOnly) {
		t.Errorf("write: %v", err)
	}
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("metrics that nobody asked for: %d", resp.StatusCode)
	}
}

// TestConditionsOfReads: net/http's ranges and conditions on our ETags, and
// never "not modified" by time.
func TestConditionsOfReads(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			s := newServed(t, open(t), serve.Options{})
			content := bytes.Repeat([]byte("0123456789"), 100_000)
			blobtest.Create(t, s.store, "data/x", string(content))
			head := s.do("HEAD", "/data/x", readToken, nil, nil)
			tag, modified := head.Header.Get("ETag"), head.Header.Get("Last-Modified")
			if tag == "" || modified == "" || head.ContentLength != int64(len(content)) {
				t.Fatalf("head: %v", head.Header)
			}
			for _, test := range []struct {
				name   string
				header map[string]string
				status int
				want   []byte
			}{
				{"whole", nil, 200, content},
				{"a range", map[string]string{"Range": "bytes=5-14"}, 206, content[5:15]},
				{"from", map[string]string{"Range": "bytes=999990-"}, 206, content[999990:]},
				{"the last", map[string]string{"Range": "bytes=-3"}, 206, content[999997:]},
				{"past the end", map[string]string{"Range": "bytes=1000000-"}, 416, nil},
				{"If-Match", map[string]string{"If-Match": tag}, 200, content},
				{"If-Match, range", map[string]string{"If-Match": tag, "Range": "bytes=1-2"}, 206, content[1:3]},
				{"If-Match, stale", map[string]string{"If-Match": `"c3RhbGU"`, "Range": "bytes=1-2"}, 412, nil},
				{"If-None-Match", map[string]string{"If-None-Match": tag}, 304, nil},
				{"If-Range", map[string]string{"If-Range": tag, "Range": "bytes=1-2"}, 206, content[1:3]},
				{"If-Range, stale", map[string]string{"If-Range": `"c3RhbGU"`, "Range": "bytes=1-2"}, 200, content},
				{"If-Modified-Since", map[string]string{"If-Modified-Since": modified}, 200, content},
			} {
				resp := s.do("GET", "/data/x", readToken, test.header, nil)
				got, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != test.status || test.want != nil && !bytes.Equal(got, test.want) {
					t.Errorf("%s: %d with %d bytes, %v; want %d with %d", test.name, resp.StatusCode, len(got), err, test.status, len(test.want))
				}
			}
			resp := s.do("GET", "/data/x", readToken, map[string]string{"Range": "bytes=0-1,10-12"}, nil)
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 206 || !bytes.Contains(got, []byte("012")) {
				t.Errorf("two ranges: %d, %v", resp.StatusCode, err)
			}
		})
	}
}

// TestHashes: small objects, and those whose store knows it, come with their
// hash.
func TestHashes(t *testing.T) {
	for name, open := range kinds {
		s := newServed(t, open(t), serve.Options{})
		data, _ := blobtest.Read(t, s.store, "HEAD")
		for _, method := range []string{"GET", "HEAD"} {
			if got := s.do(method, "/HEAD", readToken, nil, nil).Header.Get(blobstore.HeaderSHA256); got != sum(data) {
				t.Errorf("%s, %s: hash %q, want %q", name, method, got, sum(data))
			}
		}
	}
}
