package blobstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// hasty gives up soon: a test waits for each time-out.
var hasty = blobstore.Patience{Silence: 400 * time.Millisecond, Budget: 50 * time.Millisecond}

// once tries each call a single time.
var once = blobstore.Patience{Silence: 700 * time.Millisecond, Budget: -1}

// eachProxied runs a test against each server behind a proxy.
func eachProxied(t *testing.T, test func(t *testing.T, s *servers.Server, p *servers.Proxy)) {
	for name, start := range clouds {
		t.Run(name, func(t *testing.T) {
			s, p := start(t).Proxied(t)
			s.Setenv(t)
			test(t, s, p)
		})
	}
}

// Whatever a store answers, each call says one line, of a kind that callers
// can tell, and a store that stays so is given up within the budget.
func TestCloudAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	eachProxied(t, func(t *testing.T, s *servers.Server, p *servers.Proxy) {
		for name, test := range map[string]struct {
			fault servers.Fault
			want  error
		}{
			"403":       {servers.Fault{Status: 403, Code: "AccessDenied"}, blobstore.ErrPermission},
			"401":       {servers.Fault{Status: 401}, blobstore.ErrPermission},
			"429":       {servers.Fault{Status: 429, Code: "SlowDown"}, blobstore.ErrTemporary},
			"500":       {servers.Fault{Status: 500, Code: "InternalError"}, blobstore.ErrTemporary},
			"503":       {servers.Fault{Status: 503, Code: "ServiceUnavailable"}, blobstore.ErrTemporary},
			"507":       {servers.Fault{Status: 507}, blobstore.ErrFull},
			"no answer": {servers.Fault{Drop: true}, blobstore.ErrTemporary},
			"silence":   {servers.Fault{Hang: true}, blobstore.ErrTemporary},
		} {
			t.Run(name, func(t *testing.T) {
				p.Inject(servers.Fault{}, 0, nil)
				store := fresh(t, s, &blobstore.Options{Patience: hasty})
				defer store.Close()
				v := blobtest.Create(t, store, "there", "x")
				p.Inject(test.fault, -1, nil)
				for call, err := range map[string]error{
					"get":    dropReader2(store.Get(t.Context(), "there")),
					"range":  dropReader(store.GetRange(t.Context(), "there", 0, 1)),
					"head":   second(store.Head(t.Context(), "there")),
					"create": second(store.PutIfAbsent(t.Context(), "new", blobstore.BytesBody([]byte("y")))),
					"swap":   second(store.PutIfMatch(t.Context(), "there", v, []byte("z"))),
					"delete": store.Delete(t.Context(), "there"),
					"list":   listError(t, store),
				} {
					wantIs(t, call, err, test.want)
					if err == nil {
						continue
					}
					if text := err.Error(); strings.ContainsAny(text, "\n\r") || len(text) > 300 || strings.Contains(text, "?") {
						t.Errorf("%s: not one plain line: %q", call, text)
					}
				}
				if p.Met() == 0 {
					t.Error("nothing was spoilt")
				}
			})
		}
	})
}

func second[T any](_ T, err error) error { return err }

func dropReader(r io.ReadCloser, err error) error {
	if r != nil {
		r.Close()
	}
	return err
}

func dropReader2(r io.ReadCloser, _ blobstore.Info, err error) error { return dropReader(r, err) }

func listError(t testing.TB, s blobstore.Store) error {
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			return err
		}
	}
	return nil
}

// A store that recovers is not noticed.
func TestCloudRecovers(t *testing.T) {
	eachProxied(t, func(t *testing.T, s *servers.Server, p *servers.Proxy) {
		store := fresh(t, s, &blobstore.Options{Patience: blobstore.Patience{Silence: 600 * time.Millisecond, Budget: 20 * time.Second}})
		defer store.Close()
		big := pattern(5 << 20)
		for name, fault := range map[string]servers.Fault{
			"500": {Status: 500, Code: "InternalError"}, "503": {Status: 503, Code: "SlowDown"}, "429": {Status: 429},
			"dropped": {Drop: true}, "half": {Half: true}, "slow": {Slow: 200 * time.Millisecond}, "hangs": {Hang: true},
			"applied, 500": {Status: 500, After: true}, "applied, dropped": {Drop: true, After: true},
		} {
			if s.Name != "versitygw" && name != "503" && name != "half" && name != "dropped" && name != "applied, dropped" {
				continue // one server in full: each pause is waited for
			}
			t.Run(name, func(t *testing.T) {
				key := "k/" + name + "/small"
				p.Inject(fault, 1, nil)
				v := blobtest.Create(t, store, key, "one")
				met := p.Met()
				p.Inject(fault, 1, nil)
				v, err := blobstore.SwapConfirmed(t.Context(), store, key, v, []byte("two"))
				if err != nil {
					t.Errorf("swap: %v", err)
				}
				met += p.Met()
				p.Inject(fault, 1, nil)
				if data, info := blobtest.Read(t, store, key); string(data) != "two" || info.Version != v {
					t.Errorf("read %q, version %q, want %q", data, info.Version, v)
				}
				met += p.Met()
				p.Inject(fault, 1, nil)
				if err := second(store.PutIfAbsent(t.Context(), key+"-big", blobstore.BytesBody(big))); err != nil {
					t.Errorf("create: %v", err)
				}
				p.Inject(fault, 2, func(r *http.Request) bool { return r.Method == http.MethodGet })
				if data, _ := blobtest.Read(t, store, key+"-big"); !bytes.Equal(data, big) {
					t.Errorf("read %d other bytes", len(data))
				}
				met += p.Met()
				p.Inject(fault, 1, nil)
				if err := store.Delete(t.Context(), key); err != nil {
					t.Errorf("delete: %v", err)
				}
				p.Inject(fault, 1, nil)
				if err := listError(t, store); err != nil {
					t.Errorf("list: %v", err)
				}
				if met < 4 {
					t.Errorf("only %d requests were spoilt", met)
				}
			})
		}
	})
}

func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(88172645)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// A write that was applied and whose answer was lost is found to be ours by
// reading back, without any repetition.
func TestCloudLostReplies(t *testing.T) {
	eachProxied(t, func(t *testing.T, s *servers.Server, p *servers.Proxy) {
		store := fresh(t, s, &blobstore.Options{Patience: once})
		defer store.Close()
		for name, fault := range map[string]servers.Fault{
			"dropped": {Drop: true, After: true}, "503": {Status: 503, After: true}, "silence": {Hang: true, After: true},
			"412": {Status: 412, Code: "PreconditionFailed", After: true},
		} {
			t.Run(name, func(t *testing.T) {
				key := "lost/" + name
				p.Inject(fault, 1, servers.Writes)
				v, err := blobstore.PutIfAbsentConfirmed(t.Context(), store, key, blobstore.BytesBody([]byte("mine")))
				if err != nil || p.Met() != 1 {
					t.Fatalf("create: %v, %d spoilt", err, p.Met())
				}
				p.Inject(fault, 1, servers.Writes)
				v2, err := blobstore.SwapConfirmed(t.Context(), store, key, v, []byte("next"))
				if err != nil || p.Met() != 1 {
					t.Fatalf("swap: %v, %d spoilt", err, p.Met())
				}
				if data, info := blobtest.Read(t, store, key); string(data) != "next" || info.Version != v2 {
					t.Errorf("found %q, version %q, want %q", data, info.Version, v2)
				}
				// Beaten is still beaten.
				p.Inject(fault, 1, servers.Writes)
				_, err = blobstore.SwapConfirmed(t.Context(), store, key, v, []byte("late"))
				wantIs(t, "swap from a stale version", err, blobstore.ErrConflict)
			})
		}
	})
}

// Missing things are told apart.
func TestCloudMissing(t *testing.T) {
	eachCloud(t, func(t *testing.T, s *servers.Server) {
		there := s.URL("")
		gone, err := blobstore.Open(t.Context(), strings.Replace(there, servers.Bucket, "no-such-bucket", 1), &blobstore.Options{Patience: hasty})
		if err != nil {
			t.Fatal(err)
		}
		defer gone.Close()
		if err := second(gone.PutIfAbsent(t.Context(), "k", blobstore.BytesBody(nil))); err == nil || errors.Is(err, blobstore.ErrConflict) || errors.Is(err, blobstore.ErrExists) {
			t.Errorf("create in no bucket: %v", err)
		}
		err = second(gone.PutIfMatch(t.Context(), "k", `"0123456789abcdef0123456789abcdef"`, nil))
		if s.Name != "fake-gcs-server" && errors.Is(err, blobstore.ErrConflict) || err == nil {
			t.Errorf("swap in no bucket: %v", err)
		}
		wantIs(t, "list of no bucket", listError(t, gone), blobstore.ErrNoBucket)
	})
}

// A store that is not there is unreachable, and an interruption is one at once.
func TestCloudUnreachable(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	s, err := blobstore.Open(t.Context(), "s3://bucket/lake?endpoint=http://127.0.0.1:1", &blobstore.Options{Patience: hasty})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = second(s.Head(t.Context(), "k"))
	wantIs(t, "nobody listens", err, blobstore.ErrTemporary)
	if want := "cannot reach s3://bucket/lake: 127.0.0.1:1: connection refused"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say: %s", err, want)
	}
	patient, err := blobstore.Open(t.Context(), "s3://bucket/lake?endpoint=http://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	started := time.Now()
	wantIs(t, "interrupted", second(patient.Head(ctx, "k")), context.DeadlineExceeded)
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("it took %v to be interrupted", took)
	}
}

// Stores that ignore conditions are refused, in words.
func TestCloudRefused(t *testing.T) {
	t.Run("s3rver", func(t *testing.T) {
		s := servers.S3rver(t)
		s.Setenv(t)
		store := fresh(t, s, &blobstore.Options{Patience: hasty})
		defer store.Close()
		wantIs(t, "probe", blobstore.Probe(t.Context(), store), blobstore.ErrUnsafe)
	})
	t.Run("a proxy that strips headers", func(t *testing.T) {
		s, p := servers.GoFakeS3(t).Proxied(t)
		s.Setenv(t)
		store := fresh(t, s, &blobstore.Options{Patience: hasty})
		defer store.Close()
		if err := blobstore.Probe(t.Context(), store); err != nil {
			t.Fatalf("before it strips: %v", err)
		}
		p.Inject(servers.Fault{Strip: true}, -1, nil)
		err := blobstore.Probe(t.Context(), store)
		wantIs(t, "probe", err, blobstore.ErrUnsafe)
		if err != nil && !strings.Contains(err.Error(), "create it again with other content succeeded") {
			t.Errorf("it does not say what went wrong: %v", err)
		}
	})
}
