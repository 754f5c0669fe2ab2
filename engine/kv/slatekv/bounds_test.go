//go:build slatedb

package slatekv_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvtest"
	"github.com/tarnfs/tarn/engine/kv/slatekv"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Stores that are not as they should be: every call comes back.

// TestRetriesEnd: the library's own default is to try for ever.
func TestRetriesEnd(t *testing.T) {
	t.Run("folder that cannot be written", func(t *testing.T) {
		dir := kvtest.SmallDisk(t, "1m")
		place := folderURL(dir + "/db")
		w := openWriter(t, place, nil)
		put(t, w, "a", "1")
		w.Close()
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		_, err := slatekv.OpenWriter(t.Context(), parse(place), nil)
		if !errors.Is(err, syscall.EROFS) || outcome.Of(err) != outcome.Permission {
			t.Errorf("got %v, want EROFS", err)
		}
		// Reading needs no write, so it works.
		r, err := slatekv.OpenReader(t.Context(), parse(place), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantGet(t, r, "a", "1")
	})
	t.Run("nobody listens", func(t *testing.T) {
		_, err := slatekv.OpenWriter(t.Context(), parse("s3://bucket/x?endpoint=http://127.0.0.1:1"), &slatekv.Options{Env: keys("k", "s")})
		if outcome.Of(err) != outcome.Unreachable {
			t.Errorf("got %v (%v), want unreachable", err, outcome.Of(err))
		}
	})
	t.Run("wrong secret", func(t *testing.T) {
		s := servers.Versitygw(t)
		const canary = "canary-51ab-secret"
		_, err := slatekv.OpenWriter(t.Context(), parse(s.URL("x")), &slatekv.Options{Env: keys("tarnaccess", canary)})
		if outcome.Of(err) != outcome.Permission {
			t.Errorf("got %v (%v), want permission", err, outcome.Of(err))
		}
		if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is not fit to be shown: %q", err)
		}
	})
	t.Run("no such bucket", func(t *testing.T) {
		s := servers.Versitygw(t)
		place := strings.Replace(s.URL("x"), servers.Bucket, "nobucket", 1)
		if _, err := slatekv.OpenWriter(t.Context(), parse(place), &slatekv.Options{Env: s.Env()}); err == nil || errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("writer: got %v", err)
		}
		if _, err := slatekv.OpenReader(t.Context(), parse(place), &slatekv.Options{Env: s.Env()}); !errors.Is(err, kv.ErrNotExist) {
			t.Errorf("reader: got %v, want ErrNotExist", err)
		}
	})
}

func keys(id, secret string) []string {
	return []string{"AWS_ACCESS_KEY_ID=" + id, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_REGION=us-east-1"}
}

// TestCancel: calls end when their context does, also get and scan, and the
// threads that wait in C are bounded.
func TestCancel(t *testing.T) {
	place := "s3://bucket/x?endpoint=" + silent(t)
	opts := &slatekv.Options{Env: keys("k", "s")}
	short := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), 300*time.Millisecond)
	}
	ctx, cancel := short()
	defer cancel()
	if _, err := slatekv.OpenWriter(ctx, parse(place), opts); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open for writing: got %v", err)
	}
	ctx, cancel = short()
	defer cancel()
	if _, err := slatekv.OpenReader(ctx, parse(place), opts); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open for reading: got %v", err)
	}

	// A store that answers until it is open, and then no more.
	s := servers.Versitygw(t)
	s.Setenv(t)
	p := newProxy(t, s)
	w := openWriter(t, p.URL("cancel"), nil)
	for i := range 100 {
		put(t, w, fmt.Sprintf("k%03d", i), "v")
	}
	w.Close()
	r, err := slatekv.OpenReader(t.Context(), parse(p.URL("cancel")), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	hang, never := make(chan struct{}), func(r *http.Request) bool { return false }
	defer close(hang)
	stuck := func(r *http.Request) bool { <-hang; return never(r) }
	p.fail(stuck)
	ctx, cancel = short()
	defer cancel()
	if _, err := v.Get(ctx, []byte("k001")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get: got %v", err)
	}
	ctx, cancel = short()
	defer cancel()
	for _, err := range v.Scan(ctx, nil, nil, false) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("scan: got %v", err)
		}
	}

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() { v.Get(ctx, []byte("k001")) })
	}
	time.Sleep(500 * time.Millisecond) // let them all wait
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(threads); n > 150 {
		t.Errorf("300 calls that wait hold %d threads", n)
	}
	cancel()
	wg.Wait()
}
