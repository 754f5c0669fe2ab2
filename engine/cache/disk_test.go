package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/cache"
)

// childEnv makes the test binary a process that fills a cache until it is killed.
const childEnv = "TARN_TEST_CACHE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fillForever(dir)
	}
	os.Exit(m.Run())
}

// fillForever reads and downloads objects of known content, telling of each.
func fillForever(dir string) {
	s := newFar()
	c := cache.New(dir, &cache.Options{BlockSize: block, Memory: 64 * block, MinFree: -1, Size: 100 * block})
	t := &testing.T{}
	for i := uint64(0); ; i++ {
		o := s.put(t, fmt.Sprintf("object-%d", i%20), content(i%20, 12*block))
		if i%2 == 0 {
			if _, err := tryReadAll(c, o, block); err != nil {
				panic(err)
			}
		} else if l, err := c.Local(context.Background(), o); err != nil {
			panic(err)
		} else {
			l.Close()
		}
		fmt.Println(i)
	}
}

// TestKillWhileFilling: a process killed at any moment leaves a folder from
// which the next reads right bytes, within the limit, and without its rubbish.
func TestKillWhileFilling(t *testing.T) {
	dir := t.TempDir()
	for round := range 12 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		var out lockedBuffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); out.len() < 3 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(round*3) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if out.len() < 3 {
			t.Fatalf("the child did nothing:\n%s", out.String())
		}
	}
	s := newFar()
	c := open(t, dir, cache.Options{Size: 100 * block})
	for i := range uint64(20) {
		data := content(i, 12*block)
		o := s.put(t, fmt.Sprintf("object-%d", i), data)
		if b := readAll(t, c, o, block); !bytes.Equal(b, data) {
			t.Errorf("object %d has other bytes", i)
		}
		l, err := c.Local(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(l.Path()); err != nil || !bytes.Equal(b, data) {
			t.Errorf("whole object %d has other bytes: %v", i, err)
		}
		l.Close()
	}
	c.Close()
	u, err := c.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if got := onDisk(t, dir); u.Bytes > 100*block || got != u.Bytes {
		t.Errorf("%d bytes are there, %d are counted, limit %d", got, u.Bytes, 100*block)
	}
	if left := files(t, dir, "/repo/tmp/"); len(left) > 0 {
		t.Errorf("left by the dead: %v", left)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte("\n"))
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestLimit: two caches on one folder never hold more than the limit, whatever
// is read, and what was used last stays.
func TestLimit(t *testing.T) {
	const limit = 40 * block
	s, dir := newFar(), t.TempDir()
	caches := []*cache.Cache{open(t, dir, cache.Options{Size: limit}), open(t, dir, cache.Options{Size: limit})}
	var group sync.WaitGroup
	for i, c := range caches {
		group.Go(func() {
			for j := range 12 {
				data := content(uint64(100*i+j), 9*block)
				o := s.put(t, fmt.Sprintf("%d/%d", i, j), data)
				if b, err := tryReadAll(c, o, block); err != nil || !bytes.Equal(b, data) {
					t.Errorf("other bytes: %v", err)
				}
				if l, err := c.Local(t.Context(), o); err != nil && !errors.Is(err, cache.ErrNoRoom) {
					t.Error(err)
				} else if err == nil {
					l.Close()
				}
				if n := onDiskLocked(t, dir); n > limit {
					t.Errorf("%d bytes in a cache of %d", n, limit)
				}
			}
		})
	}
	group.Wait()
	if len(files(t, dir, "/blocks/")) == 0 {
		t.Error("no block was kept")
	}
}

// onDiskLocked is onDisk while nothing is added or evicted: a walk beside that
// counts what goes and what comes in its place.
func onDiskLocked(t testing.TB, dir string) int64 {
	t.Helper()
	l, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer l.Close()
	if err := unix.Flock(int(l.Fd()), unix.LOCK_EX); err != nil {
		t.Error(err)
	}
	return onDisk(t, dir)
}

// TestLRU: what was not used for longest goes first.
func TestLRU(t *testing.T) {
	s, dir := newFar(), t.TempDir()
	c := open(t, dir, cache.Options{Size: 20*block + 20*16})
	old := s.put(t, "old", content(1, 6*block))
	used := s.put(t, "used", content(2, 6*block))
	readAll(t, c, old, block)
	readAll(t, c, used, block)
	c.Close()
	past := time.Now().Add(-time.Hour)
	for _, f := range files(t, dir, "/blocks/") {
		if err := os.Chtimes(f, past, past); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, dir, cache.Options{Size: 20*block + 20*16})
	readAll(t, again, used, block) // from disk
	readAll(t, again, s.put(t, "new", content(3, 10*block)), block)
	again.Close()
	fresh := open(t, dir, cache.Options{Size: 20*block + 20*16})
	s.requests.Store(0)
	readAll(t, fresh, used, block)
	if n := s.requests.Load(); n != 0 {
		t.Errorf("what was used lately is gone: %d requests", n)
	}
	readAll(t, fresh, old, block)
	if n := s.requests.Load(); n == 0 {
		t.Error("what was used long ago is still there")
	}
}

// TestPinned: a whole file that is in use stays, also for another process, and
// room is refused rather than taken from it.
func TestPinned(t *testing.T) {
	s, dir := newFar(), t.TempDir()
	c := open(t, dir, cache.Options{Size: 20 * block})
	data := content(1, 12*block)
	l, err := c.Local(t.Context(), s.put(t, "a", data))
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, dir, cache.Options{Size: 20 * block})
	b := s.put(t, "b", content(2, 10*block))
	if _, err := other.Local(t.Context(), b); !errors.Is(err, cache.ErrNoRoom) {
		t.Fatalf("room was made beside a file in use: %v", err)
	}
	if got := readAll(t, other, b, block); !bytes.Equal(got, content(2, 10*block)) {
		t.Error("other bytes without room")
	}
	if got, err := os.ReadFile(l.Path()); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the file in use: %v", err)
	}
	if u, err := other.Clear(); err != nil || u.Locked != 1 {
		t.Errorf("clear beside a file in use: %+v, %v", u, err)
	}
	l.Close()
	third := open(t, dir, cache.Options{Size: 20 * block})
	if l, err := third.Local(t.Context(), b); err != nil {
		t.Errorf("no room after the file was given back: %v", err)
	} else {
		l.Close()
	}
	if _, err := third.Local(t.Context(), s.put(t, "huge", content(3, 21*block))); !errors.Is(err, cache.ErrNoRoom) {
		t.Errorf("larger than the whole cache: %v", err)
	}
}

// TestDamage: a flipped byte, a cut file and a swapped name are found when they
// are read back, and the bytes come from the store again.
func TestDamage(t *testing.T) {
	s, dir := newFar(), t.TempDir()
	data := content(1, 5*block+9)
	o := s.put(t, "a", data)
	c := open(t, dir, cache.Options{})
	readAll(t, c, o, block)
	c.Close() // what was read is kept then
	blocks := files(t, dir, "/blocks/")
	if len(blocks) != 6 {
		t.Fatalf("%d blocks are kept", len(blocks))
	}
	flip(t, blocks[0], 100)
	if err := os.Truncate(blocks[1], 50); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(blocks[2], blocks[3]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blocks[4], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, cache.Options{})
	s.requests.Store(0)
	if b := readAll(t, c, o, block); !bytes.Equal(b, data) {
		t.Error("damage was passed on")
	}
	if s.requests.Load() == 0 {
		t.Error("nothing was fetched again")
	}
	c.Close()
	c = open(t, dir, cache.Options{})
	s.requests.Store(0)
	readAll(t, c, o, block)
	if n := s.requests.Load(); n != 0 {
		t.Errorf("what was fetched again was not kept: %d requests", n)
	}

	for name, harm := range map[string]func(file, sums string){
		"flipped byte": func(file, _ string) { flip(t, file, 2*block) },
		"cut":          func(file, _ string) { _ = os.Truncate(file, block) },
		"sums flipped": func(_, sums string) { flip(t, sums, 30) },
		"sums gone":    func(_, sums string) { _ = os.Remove(sums) },
	} {
		t.Run("whole file: "+name, func(t *testing.T) {
			c := open(t, dir, cache.Options{})
			if _, err := c.Clear(); err != nil {
				t.Fatal(err)
			}
			l, err := c.Local(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			_ = os.Chmod(l.Path(), 0o600)
			harm(l.Path(), l.Path()[:len(l.Path())-len(filepath.Ext(l.Path()))]+".sums")
			for _, way := range []string{"blocks", "whole"} {
				c := open(t, dir, cache.Options{})
				if way == "blocks" {
					if b := readAll(t, c, o, block); !bytes.Equal(b, data) {
						t.Error("damage was passed on in blocks")
					}
					continue
				}
				l, err := c.Local(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if b, err := os.ReadFile(l.Path()); err != nil || !bytes.Equal(b, data) {
					t.Errorf("damage was passed on in the whole: %v", err)
				}
				l.Close()
			}
		})
	}
}

// TestUnusableFolder: where nothing can be kept every read still succeeds, and
// only who needs a file is refused.
func TestUnusableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]struct {
		dir string
		cache.Options
	}{
		"is a file":      {file, cache.Options{}},
		"below a file":   {filepath.Join(file, "x"), cache.Options{}},
		"no size":        {t.TempDir(), cache.Options{Size: -1}},
		"tiny":           {t.TempDir(), cache.Options{Size: 10}},
		"disk kept free": {t.TempDir(), cache.Options{MinFree: 1 << 60}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFar()
			data := content(1, 20*block)
			obj := s.put(t, "a", data)
			c := open(t, o.dir, o.Options)
			for range 2 {
				if b := readAll(t, c, obj, block); !bytes.Equal(b, data) {
					t.Error("other bytes")
				}
			}
			if _, err := c.Local(t.Context(), obj); !errors.Is(err, cache.ErrNoRoom) {
				t.Errorf("a whole file: %v", err)
			}
			_, err := c.Make(t.Context(), "repo", "made.parquet", 100, func(context.Context, string) error {
				return errors.New("made")
			})
			if !errors.Is(err, cache.ErrNoRoom) {
				t.Errorf("a made file: %v", err)
			}
		})
	}
}

// TestReadOnlyFolder: what is kept is used, and nothing is written.
func TestReadOnlyFolder(t *testing.T) {
	s, dir := newFar(), t.TempDir()
	data, more := content(1, 5*block), content(2, 5*block)
	o, o2 := s.put(t, "a", data), s.put(t, "b", more)
	c := open(t, dir, cache.Options{})
	readAll(t, c, o, block)
	c.Close()
	mountReadOnly(t, dir)
	c = open(t, dir, cache.Options{})
	s.requests.Store(0)
	if b := readAll(t, c, o, block); !bytes.Equal(b, data) || s.requests.Load() != 0 {
		t.Errorf("what is kept is not used: %d requests", s.requests.Load())
	}
	if b := readAll(t, c, o2, block); !bytes.Equal(b, more) {
		t.Error("other bytes")
	}
}

// TestFullDisk: on a disk that others fill, reads go on and what is there is right.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "64M")
	s := newFar()
	c := open(t, filepath.Join(dir, "cache"), cache.Options{})
	filler := filepath.Join(dir, "filler")
	for i := range 6 {
		data := content(uint64(i), 100*block)
		o := s.put(t, strconv.Itoa(i), data)
		for range 2 {
			if b := readAll(t, c, o, block); !bytes.Equal(b, data) {
				t.Error("other bytes")
			}
		}
		switch i {
		case 2: // not a byte left
			f, err := os.Create(filler)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 1<<20)
			for err == nil {
				_, err = f.Write(buf)
			}
			f.Close()
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
		case 4:
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TARN_TEST_REQUIRE") == "1" {
			t.Fatal("missing and required: root")
		}
		t.Skip("missing: root")
	}
}

// smallDisk is a file system of its own.
func smallDisk(t testing.TB, size string) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func mountReadOnly(t testing.TB, dir string) {
	t.Helper()
	needRoot(t)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}
