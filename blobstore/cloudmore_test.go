package blobstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// The same content again makes an object young, whatever its name, and keeps
// content and hash.
func TestCloudRenew(t *testing.T) {
	blobstore.RenewAtOnce(t)
	eachCloud(t, func(t *testing.T, s *servers.Server) {
		store := fresh(t, s, nil)
		defer store.Close()
		keys := slices.DeleteFunc(append(slices.Clone(blobtest.OddKeys), "data/main/t/plain-1.parquet", "odd__0x2f__name", "a../b"),
			func(key string) bool { return len(key) > 200 })
		born := map[string]time.Time{}
		for _, key := range keys {
			blobtest.Create(t, store, key, "content of "+key)
			info, err := store.Head(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			born[key] = info.ModTime
		}
		time.Sleep(1100 * time.Millisecond) // stores tell whole seconds
		for _, key := range keys {
			body := blobstore.BytesBody([]byte("content of " + key))
			v, err := store.PutIfAbsent(t.Context(), key, body)
			if err != nil {
				t.Errorf("%q again: %v", key, err)
				continue
			}
			data, info := blobtest.Read(t, store, key)
			if string(data) != "content of "+key || info.Version != v {
				t.Errorf("%q: %q, version %q, want %q", key, data, info.Version, v)
			}
			head, err := store.Head(t.Context(), key)
			if err != nil || !head.ModTime.After(born[key]) || head.SHA256 != body.SHA256 {
				t.Errorf("%q: %+v, %v: not younger than %v, or without its hash", key, head, err, born[key])
			}
		}
		if got := blobtest.Keys(t, store, ""); len(got) != len(keys) {
			t.Errorf("%d objects, want %d: %q", len(got), len(keys), got)
		}
	})
}

// A large object is read in parts, from one state, and a reader that is closed
// early leaves nothing held.
func TestCloudParallel(t *testing.T) {
	s, p := servers.Versitygw(t).Proxied(t)
	s.Setenv(t)
	store := fresh(t, s, nil)
	defer store.Close()
	content := pattern(50<<20 + 12345)
	body := blobstore.BytesBody(content)
	if _, err := store.PutIfAbsent(t.Context(), "big", body); err != nil {
		t.Fatal(err)
	}
	p.Inject(servers.Fault{}, 0, nil)
	data, info := blobtest.Read(t, store, "big")
	if !bytes.Equal(data, content) || info.SHA256 != body.SHA256 {
		t.Errorf("read %d bytes, %+v", len(data), info)
	}
	if n := len(p.Seen()); n != 7 {
		t.Errorf("%d requests for 50 MiB in parts of 8: %q", n, p.Seen())
	}
	p.Inject(servers.Fault{Status: 503}, 3, nil) // parts are repeated
	if data, _ := blobtest.Read(t, store, "big"); !bytes.Equal(data, content) {
		t.Error("other bytes after faults")
	}
	for range 5 {
		r, _, err := store.Get(t.Context(), "big")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, r, 9<<20); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := blobstore.Held(store); n != 0 {
		t.Errorf("%d parts are held by nobody", n)
	}
	// Many readers at once, more than memory is given to: all are served.
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			r, _, err := store.Get(t.Context(), "big")
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			var got bytes.Buffer
			if _, err := io.Copy(&got, r); err != nil || !bytes.Equal(got.Bytes(), content) {
				t.Errorf("read %d bytes, %v", got.Len(), err)
			}
		})
	}
	wg.Wait()
	if n := blobstore.Held(store); n != 0 {
		t.Errorf("%d parts are held by nobody", n)
	}
	// A range of another version is noticed.
	r, info, err := store.Get(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := store.PutIfMatch(t.Context(), "big", info.Version, pattern(50<<20)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(got, content) {
		t.Error("a torn object was read without an error")
	}
}

// A part of an upload is repeated by itself, and an upload that is refused at
// its end leaves no parts behind.
func TestCloudUploadInParts(t *testing.T) {
	s, p := servers.Versitygw(t).Proxied(t)
	s.Setenv(t)
	store := fresh(t, s, nil)
	defer store.Close()
	content := pattern(30 << 20)
	parts := func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Has("partNumber") }
	p.Inject(servers.Fault{Status: 503, Code: "SlowDown"}, 2, parts)
	if _, err := store.PutIfAbsent(t.Context(), "big", blobstore.BytesBody(content)); err != nil {
		t.Fatal(err)
	}
	if p.Met() != 2 {
		t.Errorf("%d parts were spoilt", p.Met())
	}
	if n := len(slices.DeleteFunc(p.Seen(), func(r string) bool { return !strings.HasPrefix(r, "POST") })); n != 2 {
		t.Errorf("%d POST requests, want one to begin and one to complete: %q", n, p.Seen())
	}
	// Interrupted: nothing is visible.
	ctx, cancel := context.WithCancel(t.Context())
	p.Inject(servers.Fault{Slow: time.Hour}, -1, parts)
	go func() {
		for p.Met() == 0 && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	_, err := store.PutIfAbsent(ctx, "other", blobstore.BytesBody(content))
	wantIs(t, "interrupted upload", err, context.Canceled)
	p.Inject(servers.Fault{}, 0, nil)
	if got := blobtest.Keys(t, store, ""); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}

// No secret shows in what is said, logged or returned.
func TestCloudSecrets(t *testing.T) {
	const canary = "CANARYc4n4ry"
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": canary + "id", "AWS_SECRET_ACCESS_KEY": canary + "secret", "AWS_SESSION_TOKEN": canary + "token",
		"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_KEY": "", "AZURE_STORAGE_SAS_TOKEN": "sv=2024&sig=" + canary,
	} {
		t.Setenv(name, value)
	}
	var log bytes.Buffer
	o := &blobstore.Options{Patience: hasty, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s, _ := servers.GoFakeS3(t).Proxied(t)
	denied := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message><StringToSign>%s</StringToSign></Error>", canary)
	})
	_ = s
	srv := newServer(t, denied)
	var said []string
	for _, url := range []string{
		"s3://bucket/p?endpoint=" + srv, "s3://bucket/p?endpoint=http://127.0.0.1:1",
		"azblob://box/p?localemu=true&protocol=http&domain=" + strings.TrimPrefix(srv, "http://"),
		"azblob://box/p?localemu=true&protocol=http&domain=127.0.0.1:1",
		"s3://" + canary + ":" + canary + "@bucket/p", "s3://bucket/p?secret_key=" + canary, "s3://bucket/p?" + canary + "%zz",
		"s3://bucket/p?region=x&region=" + canary, "s3://bucket/p?anonymous=" + canary, "s3://bucket/p?endpoint=" + canary,
		"azblob://" + canary + "@box/p", "azblob://box/p?storage_account=a-b&sas=" + canary, "gs://x/p?key=" + canary, "gs://" + canary + "@x/p",
		"https://u:" + canary + "@host/p", "s3://bucket/p#" + canary, "s3:///p?x=" + canary,
	} {
		store, err := blobstore.Open(t.Context(), url, o)
		if err != nil {
			said = append(said, err.Error())
			continue
		}
		said = append(said, store.URL())
		v := blobstore.Version(`"0123456789abcdef0123456789abcdef"`)
		for _, err := range append(everyCall(t.Context(), store), second(store.PutIfMatch(t.Context(), "k", v, nil))) {
			if err == nil {
				t.Errorf("a call of a store that refuses everything succeeded")
				continue
			}
			said = append(said, err.Error())
		}
		store.Close()
	}
	if len(said) < 25 || log.Len() == 0 {
		t.Errorf("only %d things were said", len(said))
	}
	for _, line := range append(said, log.String()) {
		if strings.Contains(line, canary) {
			t.Errorf("a secret shows: %s", line)
		}
	}
	for in, want := range map[string]string{
		"s3://u:" + canary + "@b/p/?q=" + canary + "#" + canary: "s3://b/p", "S3://b": "s3://b", "/a/path?x#y": "/a/path?x#y",
		"https://tok" + canary + "@h:1/p/": "https://h:1/p", "mem:x": "mem:x",
	} {
		if got := blobstore.CleanURL(in); got != want {
			t.Errorf("CleanURL(%q) = %q, want %q", in, got, want)
		}
	}
}

// What a store of its own endpoint gets: plain requests, signed for a region.
func TestS3Requests(t *testing.T) {
	var mu sync.Mutex
	var seen []http.Header
	url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		seen = append(seen, r.Header.Clone())
		mu.Unlock()
		if !strings.HasPrefix(r.URL.Path, "/bucket/lake/") {
			t.Errorf("path %s", r.URL.Path)
		}
		w.Header().Set("ETag", `"0"`)
	}))
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	ask := func(store blobstore.Store, err error) http.Header {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.PutIfAbsent(t.Context(), "k", blobstore.BytesBody([]byte("x"))); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return seen[len(seen)-1]
	}
	for name, open := range map[string]func() (blobstore.Store, error){
		"by parameter": func() (blobstore.Store, error) {
			return blobstore.Open(t.Context(), "s3://bucket/lake?endpoint="+url, nil)
		},
		"by variable": func() (blobstore.Store, error) {
			t.Setenv("AWS_ENDPOINT_URL", url)
			return blobstore.Open(t.Context(), "s3://bucket/lake", nil)
		},
	} {
		h := ask(open())
		for header, want := range map[string]string{
			"If-None-Match": "*", "Content-Type": "application/octet-stream", "X-Amz-Checksum-Crc32": "", "Content-Encoding": "",
			"X-Amz-Meta-Sha256": blobstore.BytesBody([]byte("x")).SHA256,
		} {
			if got := h.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		if auth := h.Get("Authorization"); !strings.Contains(auth, "/us-east-1/s3/") {
			t.Errorf("%s: signed as %s", name, auth)
		}
	}
	h := ask(blobstore.Open(t.Context(), "s3://bucket/lake?region=eu-west-3&request_checksum_calculation=when_supported&endpoint="+url, nil))
	if h.Get("X-Amz-Checksum-Crc32") == "" || !strings.Contains(h.Get("Authorization"), "/eu-west-3/s3/") {
		t.Errorf("the parameters are not followed: %v", h)
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	_, err := blobstore.Open(t.Context(), "s3://bucket/lake", nil)
	wantIs(t, "no region", err, blobstore.ErrBadURL)
}

// Round trips are counted where they happen, and chains of them.
func TestCloudMetrics(t *testing.T) {
	s := servers.GoFakeS3(t)
	s.Setenv(t)
	var m blobstore.Metrics
	store := fresh(t, s, &blobstore.Options{Metrics: &m})
	defer store.Close()
	blobtest.Create(t, store, "a", "1234")
	blobtest.Read(t, store, "a")
	_, err := store.Head(t.Context(), "none")
	wantIs(t, "head", err, blobstore.ErrNotExist)
	c := m.Count()
	if c.Trips != 3 || c.Sequential != 3 {
		t.Errorf("%d trips, %d in a chain, want 3 and 3", c.Trips, c.Sequential)
	}
	want := map[blobstore.Op]blobstore.OpCount{
		blobstore.OpPutIfAbsent: {Calls: 1, Wrote: 4}, blobstore.OpGet: {Calls: 1, Read: 4}, blobstore.OpHead: {Calls: 1, Errors: 1},
	}
	for op, n := range want {
		if c.Ops[op] != n {
			t.Errorf("%s: %+v, want %+v", op, c.Ops[op], n)
		}
	}
	if len(c.Ops) != len(want) {
		t.Errorf("counted %v", c.Ops)
	}
	m.Reset()
	if c := m.Count(); c.Trips != 0 || len(c.Ops) != 0 {
		t.Errorf("after reset: %+v", c)
	}
}

// Calls that overlap are one link of the chain.
func TestMetricsChains(t *testing.T) {
	var m blobstore.Metrics
	gate, entered := make(chan struct{}), make(chan struct{}, 4)
	slow := &slowHead{Store: blobstore.NewMem(), gate: gate, entered: entered}
	s := blobstore.Counted(slow, &m)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _, _ = s.Head(t.Context(), "k") })
	}
	for range 4 {
		<-entered
	}
	close(gate)
	wg.Wait()
	blobtest.Create(t, s, "k", "x")
	if c := m.Count(); c.Trips != 5 || c.Sequential != 2 {
		t.Errorf("%d trips, %d in a chain, want 5 and 2", c.Trips, c.Sequential)
	}
}

type slowHead struct {
	blobstore.Store
	gate, entered chan struct{}
}

func (s *slowHead) Head(ctx context.Context, key string) (blobstore.Info, error) {
	s.entered <- struct{}{}
	<-s.gate
	return s.Store.Head(ctx, key)
}

// Retrying repeats what may be repeated, and nothing else.
func TestRetrying(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	for name, test := range map[string]struct {
		err   error
		after bool
		want  error // of every call; nil: the call succeeds in the end
	}{
		"temporary":                  {err: blobstore.ErrTemporary},
		"temporary, after it landed": {err: blobstore.ErrTemporary, after: true},
		"permission":                 {err: blobstore.ErrPermission, want: blobstore.ErrPermission},
		"damaged":                    {err: blobstore.ErrCorrupt, want: blobstore.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 7 {
				f := blobstore.NewFaulty(blobstore.NewMem())
				blobtest.Create(t, f.Inner(), "there", "xyz")
				f.Inject(blobstore.Fault{N: n, After: test.after, Err: test.err})
				errs := everyCall(t.Context(), blobstore.Retrying(f, blobstore.Patience{}, nil))
				if !f.Fired() {
					t.Fatalf("fault %d never fired", n)
				}
				failed := 0
				for i, err := range errs {
					if err == nil {
						continue
					}
					failed++
					// A swap that landed is the caller's to find out; of a list
					// that broke off after its objects he is told.
					if test.after && (i == 1 || i == 5) {
						wantIs(t, "swap or list", err, test.err)
						continue
					}
					wantIs(t, fmt.Sprintf("call %d, fault %d", i, n), err, test.want)
				}
				if test.want != nil && failed != 1 {
					t.Errorf("fault %d: %d calls failed", n, failed)
				}
			}
		})
	}
	// The budget ends it, and the error is the store's own.
	f := blobstore.NewFaulty(blobstore.NewMem())
	f.Inject(blobstore.Fault{Err: blobstore.ErrTemporary, Onwards: true})
	_, err := blobstore.Retrying(f, blobstore.Patience{Budget: 300 * time.Millisecond}, nil).Head(t.Context(), "k")
	wantIs(t, "a store that stays away", err, blobstore.ErrTemporary)
	if f.Calls() < 2 {
		t.Errorf("%d calls", f.Calls())
	}
	// An interruption ends it at once.
	ctx, cancel := context.WithCancel(t.Context())
	f.Inject(blobstore.Fault{Err: blobstore.ErrTemporary, Onwards: true, Do: func(blobstore.Call) { cancel() }})
	_, err = blobstore.Retrying(f, blobstore.Patience{}, nil).Head(ctx, "k")
	if !errors.Is(err, context.Canceled) && !errors.Is(err, blobstore.ErrTemporary) || f.Calls() != 1 {
		t.Errorf("interrupted: %v after %d calls", err, f.Calls())
	}
}
