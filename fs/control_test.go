package fs_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/fs"
)

func newWorkTree(t testing.TB) (*fakeWork, *raw) {
	t.Helper()
	r := newTestRepo(t)
	w, err := newFakeWork(t.TempDir(), "main", r, v2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.state.Close() })
	tree := fs.NewWork(fs.WorkOptions{})
	tree.Add(w)
	return w, newRaw(t, tree)
}

// TestControlFreshInode: each lookup of a control file is another inode, so
// that the kernel queues nobody behind another's request.
func TestControlFreshInode(t *testing.T) {
	_, r := newWorkTree(t)
	dir := r.walk("main").NodeId
	seen := map[uint64]bool{}
	for range 50 {
		e, errno := r.lookup(dir, ".commit")
		if errno != 0 || seen[e.NodeId] || seen[e.Ino] {
			t.Fatalf("errno %v, node %d, inode %d: seen before", errno, e.NodeId, e.Ino)
		}
		if e.EntryTimeout() != 0 || e.AttrTimeout() != 0 {
			t.Fatalf("kept for %v, %v", e.EntryTimeout(), e.AttrTimeout())
		}
		seen[e.NodeId], seen[e.Ino] = true, true
	}
	for _, name := range r.names("main") {
		if strings.HasPrefix(name, ".") {
			t.Errorf("%s is listed", name)
		}
	}
}

func TestControlMissing(t *testing.T) {
	w, r := newWorkTree(t)
	w.noVerb = "pull"
	if e, errno := r.lookup(r.walk("main").NodeId, ".pull"); errno == 0 && e.NodeId != 0 {
		t.Error(".pull is found, and the engine has none")
	}
}

// TestControlRequests gives a control file every sequence of requests that
// programs were seen to send.
func TestControlRequests(t *testing.T) {
	const (
		now   = fuse.FATTR_MTIME | fuse.FATTR_MTIME_NOW
		given = fuse.FATTR_MTIME
	)
	type step func(r *raw, node, fh uint64) syscall.Errno
	setattr := func(valid uint32) step {
		return func(r *raw, node, _ uint64) syscall.Errno {
			var out fuse.AttrOut
			in := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: head(node), Valid: valid, Mode: 0o644}}
			return syscall.Errno(r.SetAttr(never, &in, &out))
		}
	}
	writeAt := func(off uint64, text string) step {
		return func(r *raw, node, fh uint64) syscall.Errno {
			_, st := r.Write(never, &fuse.WriteIn{InHeader: head(node), Fh: fh, Offset: off}, []byte(text))
			return syscall.Errno(st)
		}
	}
	flush := func(r *raw, node, fh uint64) syscall.Errno {
		return syscall.Errno(r.Flush(never, &fuse.FlushIn{InHeader: head(node), Fh: fh}))
	}
	fsync := func(r *raw, node, fh uint64) syscall.Errno {
		return syscall.Errno(r.Fsync(never, &fuse.FsyncIn{InHeader: head(node), Fh: fh}))
	}
	fails := func(s step, want syscall.Errno) step {
		return func(r *raw, node, fh uint64) syscall.Errno {
			if got := s(r, node, fh); got != want {
				r.Errorf("got %v, want %v", got, want)
			}
			return 0
		}
	}
	commit := func(message string) act { return act{"commit", message} }
	for _, tc := range []struct {
		name  string
		steps []step
		want  []act
	}{
		{"touch", []step{flush, setattr(now | fuse.FATTR_ATIME | fuse.FATTR_ATIME_NOW), flush}, []act{commit("")}},
		{"touch -a", []step{flush, setattr(fuse.FATTR_ATIME | fuse.FATTR_ATIME_NOW), flush}, nil},
		{"touch -d, cp -p", []step{flush, setattr(given), flush}, nil},
		{"only open", []step{flush}, nil},
		{"a size alone", []step{setattr(fuse.FATTR_SIZE), flush}, nil},
		{"truncate by path", []step{setattr(fuse.FATTR_SIZE | now), flush}, nil},
		{"the mode it has", []step{setattr(fuse.FATTR_MODE), flush}, nil},
		{"echo", []step{setattr(fuse.FATTR_SIZE), flush, writeAt(0, "a message\n"), flush}, []act{commit("a message")}},
		{"two writes", []step{writeAt(0, "one\n"), writeAt(4, "two\n"), flush}, []act{commit("one\ntwo")}},
		{"appended", []step{writeAt(18, "app"), writeAt(21, "ended\n"), flush}, []act{commit("appended")}},
		{"a dup closed twice", []step{writeAt(0, "m"), flush, flush}, []act{commit("m")}},
		{"touch of an open file", []step{writeAt(0, "m"), setattr(now), flush}, []act{commit("m")}},
		{"fsync before close", []step{writeAt(0, "m"), fsync, flush}, []act{commit("m")}},
		{"sync", []step{fsync, flush}, []act{commit("")}},
		{"echo twice", []step{writeAt(0, "m"), flush, writeAt(0, "n"), flush}, []act{commit("m"), commit("n")}},
		{"64 KiB", []step{writeAt(0, strings.Repeat("x", 64<<10)), flush}, []act{commit(strings.Repeat("x", 64<<10))}},
		{"too long", []step{writeAt(0, strings.Repeat("x", 64<<10)), fails(writeAt(64<<10, "y"), syscall.EFBIG), fails(writeAt(0, "y"), syscall.EFBIG), flush}, nil},
		{"backwards", []step{writeAt(10, "m"), fails(writeAt(0, "n"), syscall.EINVAL)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, r := newWorkTree(t)
			r.TB = t
			node := r.walk("main/.commit").NodeId
			var open fuse.OpenOut
			if st := r.Open(never, &fuse.OpenIn{InHeader: head(node), Flags: syscall.O_WRONLY}, &open); st != 0 {
				t.Fatal(st)
			}
			for i, s := range tc.steps {
				if errno := s(r, node, open.Fh); errno != 0 {
					t.Errorf("step %d: %v", i, errno)
				}
			}
			r.Release(never, &fuse.ReleaseIn{InHeader: head(node), Fh: open.Fh})
			if d := cmp.Diff(tc.want, w.acts); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestControlOutcome: the outcome is the errno, in each way to ask.
func TestControlOutcome(t *testing.T) {
	for o, row := range outcome.Table {
		if row.Errno == 0 {
			continue
		}
		w, r := newWorkTree(t)
		w.fail = outcome.New(o, "it did not work", "")
		node := r.walk("main/.push").NodeId
		var out fuse.AttrOut
		in := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: head(node), Valid: fuse.FATTR_MTIME | fuse.FATTR_MTIME_NOW}}
		if got := syscall.Errno(r.SetAttr(never, &in, &out)); got != row.Errno {
			t.Errorf("%s: touch says %v, want %v", row.Name, got, row.Errno)
		}
		var open fuse.OpenOut
		r.Open(never, &fuse.OpenIn{InHeader: head(node), Flags: syscall.O_WRONLY}, &open)
		if got := syscall.Errno(r.Fsync(never, &fuse.FsyncIn{InHeader: head(node), Fh: open.Fh})); got != row.Errno {
			t.Errorf("%s: fsync says %v, want %v", row.Name, got, row.Errno)
		}
		r.Write(never, &fuse.WriteIn{InHeader: head(node), Fh: open.Fh}, []byte("m"))
		if got := syscall.Errno(r.Flush(never, &fuse.FlushIn{InHeader: head(node), Fh: open.Fh})); got != row.Errno {
			t.Errorf("%s: close says %v, want %v", row.Name, got, row.Errno)
		}
	}
}

// TestControlInterrupt: an interrupted request is EINTR at once, and the work
// goes on to its end.
func TestControlInterrupt(t *testing.T) {
	w, r := newWorkTree(t)
	w.delay = 300 * time.Millisecond
	node := r.walk("main/.commit").NodeId
	cancel := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() { close(cancel) })
	var out fuse.AttrOut
	in := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: head(node), Valid: fuse.FATTR_MTIME | fuse.FATTR_MTIME_NOW}}
	start := time.Now()
	if got := syscall.Errno(r.SetAttr(cancel, &in, &out)); got != syscall.EINTR {
		t.Errorf("got %v, want EINTR", got)
	}
	if took := time.Since(start); took > 200*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		done := len(w.results)
		w.mu.Unlock()
		if done == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the work did not go on")
		}
	}
}

// TestControlRead: reading gives the last outcome, and does not act.
func TestControlRead(t *testing.T) {
	w, r := newWorkTree(t)
	if text, _ := r.content("main/.push"); text != "last push: done\n" {
		t.Errorf("got %q", text)
	}
	if len(w.acts) != 0 {
		t.Errorf("reading acted: %v", w.acts)
	}
}
