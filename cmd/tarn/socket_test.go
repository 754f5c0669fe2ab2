package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"log/slog"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// fakeMount is a daemon whose folder answers what it was asked.
type fakeMount struct {
	started  chan struct{} // a push sends here when it begins, if not nil
	released chan struct{} // and waits for this
	gaveUp   atomic.Bool   // the push's client hung up
	fail     error
}

type fakeFolder struct {
	*fakeMount
	where string
}

func (m *fakeMount) Folder(point, path string) (folder, error) {
	return &fakeFolder{m, point + ":" + path}, m.fail
}
func (m *fakeMount) Info(context.Context) (document, error) {
	return line{"info", map[string]int{"pid": 7}}, nil
}
func (m *fakeMount) Unmount(_ context.Context, o umountOptions) (document, error) {
	return line{"unmounted", o}, nil
}
func (f *fakeFolder) did(verb string, o any) (document, error) {
	return line{verb + " " + f.where, o}, nil
}
func (f *fakeFolder) Commit(_ context.Context, o commitOptions) (document, error) {
	return f.did("commit", o)
}
func (f *fakeFolder) Push(ctx context.Context, o pushOptions, report func(progress)) (document, error) {
	report(progress{1, 10})
	if f.started != nil {
		f.started <- struct{}{}
		select {
		case <-f.released:
		case <-ctx.Done():
			f.gaveUp.Store(true)
		}
	}
	return f.did("push", o)
}
func (f *fakeFolder) Pull(context.Context) (document, error) { return f.did("pull", nil) }
func (f *fakeFolder) Merge(_ context.Context, o mergeOptions) (document, error) {
	return f.did("merge", o)
}
func (f *fakeFolder) Reset(_ context.Context, o resetOptions) (document, error) {
	return f.did("reset", o)
}
func (f *fakeFolder) Restore(_ context.Context, o restoreOptions) (document, error) {
	return f.did("restore", o)
}
func (f *fakeFolder) Revert(_ context.Context, o revertOptions) (document, error) {
	return f.did("revert", o)
}
func (f *fakeFolder) Committed(context.Context) (document, error) { return f.did("committed", nil) }
func (f *fakeFolder) Status(context.Context) (document, error)    { return f.did("status", nil) }
func (f *fakeFolder) Diff(context.Context) (document, bool, error) {
	d, err := f.did("diff", []int{1})
	return d, true, err
}
func (f *fakeFolder) Log(_ context.Context, o engine.LogFilter) (logDoc, error) {
	return logDoc{{Number: int64(o.Limit), Message: "first"}}, nil
}
func (f *fakeFolder) Close() error { return nil }

// serveFake serves m for the mount point point; the place is where a client stands.
func serveFake(t *testing.T, h *testHost, m *fakeMount) (*server, *place) {
	t.Helper()
	dir, err := h.socketDir()
	if err != nil {
		t.Fatal(err)
	}
	ln, remove, err := listen(dir, "/mnt/towns", "/mnt/towns/work")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(ln, m, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.close(ctx)
		remove()
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left in the folder of sockets: %v (%v)", left, err)
		}
	})
	return s, &place{Kind: placeMount, Dir: "/mnt/towns/work", Rel: "main/tables", UID: uint32(os.Getuid())}
}

func TestVerbsOverTheSocket(t *testing.T) {
	h := newTestHost(t)
	_, p := serveFake(t, h, &fakeMount{})
	f := &remoteFolder{h.host, p}
	ctx := context.Background()
	check := func(d document, err error, text, doc string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{text, doc}, []string{d.Text(), string(b)}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	const at = " /mnt/towns/work:main/tables"
	d, err := f.Commit(ctx, commitOptions{Message: "two\nlines", Author: "Ann", AllowEmpty: true})
	check(d, err, "commit"+at, `{"message":"two\nlines","author":"Ann","allow_empty":true}`)
	var seen []progress
	d, err = f.Push(ctx, pushOptions{CheckAll: true}, func(p progress) { seen = append(seen, p) })
	check(d, err, "push"+at, `{"check_all":true}`)
	if diff := cmp.Diff([]progress{{1, 10}}, seen); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	d, err = f.Reset(ctx, resetOptions{Last: true})
	check(d, err, "reset"+at, `{"last":true}`)
	d, err = f.Status(ctx)
	check(d, err, "status"+at, `null`)
	d, differs, err := f.Diff(ctx)
	check(d, err, "diff"+at, `[1]`)
	if !differs {
		t.Error("the diff lost that something differs")
	}
	d, err = f.Pull(ctx)
	check(d, err, "pull"+at, `null`)
	d, err = f.Merge(ctx, mergeOptions{From: "side", Message: "both"})
	check(d, err, "merge"+at, `{"from":"side","message":"both"}`)
	l, err := f.Log(ctx, engine.LogFilter{Limit: 7})
	if err != nil || len(l) != 1 || l[0].Number != 7 || l[0].Message != "first" {
		t.Errorf("log: %v, %v", l, err)
	}
	d, err = ask(ctx, h.host, p, verbUmount, umountOptions{Lazy: true}, nil)
	check(d, err, "unmounted", `{"lazy":true}`)
	d, err = ask(ctx, h.host, p, verbInfo, nil, nil)
	check(d, err, "info", `{"pid":7}`)
}

func TestSocketErrorKeepsItsOutcome(t *testing.T) {
	h := newTestHost(t)
	_, p := serveFake(t, h, &fakeMount{fail: outcome.New(outcome.Busy, "it is busy", "wait")})
	_, err := (&remoteFolder{h.host, p}).Status(context.Background())
	if outcome.Of(err) != outcome.Busy || err.Error() != "it is busy" || outcome.Next(err) != "wait" {
		t.Errorf("got %v (%s), hint %s", err, outcome.Of(err), outcome.Next(err))
	}
}

func TestSocketIsPrivate(t *testing.T) {
	h := newTestHost(t)
	serveFake(t, h, &fakeMount{})
	dir, err := h.socketDirName()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, socketName("/mnt/towns")): 0o600} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, st.Mode().Perm(), want)
		}
	}
}

func TestSocketFolderOfOthersIsRefused(t *testing.T) {
	h := newTestHost(t)
	dir := filepath.Join(h.env["XDG_RUNTIME_DIR"], "tarn")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // past the umask
		t.Fatal(err)
	}
	if _, err := h.socketDir(); outcome.Of(err) != outcome.Permission {
		t.Errorf("got %v, want no permission", err)
	}
}

// A path of more than 107 bytes does not fit into a socket address.
func TestSocketInADeepFolder(t *testing.T) {
	h := newTestHost(t)
	h.env["XDG_RUNTIME_DIR"] = filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	_, p := serveFake(t, h, &fakeMount{})
	if _, err := (&remoteFolder{h.host, p}).Status(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestNoDaemon(t *testing.T) {
	h := newTestHost(t)
	p := &place{Kind: placeMount, Dir: "/mnt/towns", UID: uint32(os.Getuid())}
	_, err := ask(context.Background(), h.host, p, verbStatus, nil, nil)
	if outcome.Of(err) != outcome.Unreachable || !strings.Contains(err.Error(), "/mnt/towns does not answer") {
		t.Errorf("got %v", err)
	}
}

// A socket that a killed daemon left is replaced; one that answers is not.
func TestListenAgain(t *testing.T) {
	dir := shortDir(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName("/m")), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	ln, remove, err := listen(dir, "/m")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	defer func() { _ = ln.Close() }()
	if _, _, err := listen(dir, "/m"); outcome.Of(err) != outcome.Busy {
		t.Errorf("a second daemon: got %v, want busy", err)
	}
}

func TestBadRequests(t *testing.T) {
	h := newTestHost(t)
	_, p := serveFake(t, h, &fakeMount{})
	for _, tc := range []struct{ name, send, want string }{
		{"not JSON", "hello\n", "the request is not JSON"},
		{"another version", `{"v":99,"verb":"status"}` + "\n", "speaks control protocol 1, not 99"},
		{"unknown verb", `{"v":1,"verb":"explode"}` + "\n", `knows no verb "explode"`},
		{"unknown option", `{"v":1,"verb":"commit","options":{"forc":true}}` + "\n", "does not understand the options of commit"},
		{"too long", `{"v":1,"verb":"` + strings.Repeat("x", maxRequest) + `"}` + "\n", "no complete request came"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := dial(context.Background(), h.socketDirs(p.UID), p.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_, _ = c.Write([]byte(tc.send)) // the daemon may hang up on a long one
			var out reply
			if err := json.NewDecoder(c).Decode(&out); err != nil {
				if tc.name == "too long" && errors.Is(err, net.ErrClosed) {
					return
				}
				t.Fatal(err)
			}
			if out.Error == nil || out.Error.Code != "usage" || !strings.Contains(out.Error.Message, tc.want) {
				t.Errorf("got %+v, want usage with %q", out.Error, tc.want)
			}
		})
	}
}

// A client that gives up gets "interrupted"; the daemon learns of it.
func TestClientGivesUp(t *testing.T) {
	h := newTestHost(t)
	m := &fakeMount{started: make(chan struct{}), released: make(chan struct{})}
	s, p := serveFake(t, h, m)
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	go func() {
		_, err := (&remoteFolder{h.host, p}).Push(ctx, pushOptions{}, nil)
		got <- err
	}()
	<-m.started
	cancel()
	if err := <-got; outcome.Of(err) != outcome.Interrupted {
		t.Errorf("got %v, want interrupted", err)
	}
	end, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	s.close(end)
	if !m.gaveUp.Load() {
		t.Error("the daemon did not notice that the client hung up")
	}
}

// Ending a mount waits for the verb that runs, and takes no new one.
func TestCloseWaitsForVerbs(t *testing.T) {
	h := newTestHost(t)
	m := &fakeMount{started: make(chan struct{}), released: make(chan struct{})}
	s, p := serveFake(t, h, m)
	got := make(chan error, 1)
	go func() {
		_, err := (&remoteFolder{h.host, p}).Push(context.Background(), pushOptions{}, nil)
		got <- err
	}()
	<-m.started
	closed := make(chan struct{})
	go func() { s.close(context.Background()); close(closed) }()
	for deadline := time.Now().Add(5 * time.Second); ; {
		_, err := ask(context.Background(), h.host, p, verbInfo, nil, nil)
		if outcome.Of(err) == outcome.Unreachable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a closing daemon still takes requests")
		}
	}
	select {
	case <-closed:
		t.Fatal("close did not wait for the push")
	default:
	}
	close(m.released)
	if err := <-got; err != nil {
		t.Errorf("the push that was running: %v", err)
	}
	<-closed
}
