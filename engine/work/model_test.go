package work_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/work"
)

var seed = flag.Uint64("seed", 0, "run the model test with this seed only")

// TestModel does random operations on an overlay and on a real folder that
// began with the same files: same errno, same tree, also after a reopen, and
// after commits that turn what is staged into a new base.
func TestModel(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}
	if *seed != 0 {
		seeds = []uint64{*seed}
	}
	for _, s := range seeds {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			m := newModel(t, s)
			for i := range 300 {
				m.step(i)
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", s, strings.Join(m.log[max(0, len(m.log)-40):], "\n"))
				}
			}
			t.Logf("%d of %d operations changed something, %d died", m.changed, m.n, m.crashed)
			if m.crashed == 0 {
				t.Error("no crash was tried")
			}
		})
	}
}

type model struct {
	t    testing.TB
	r    *rand.Rand
	dir  string // state folder
	ref  string // the real folder
	f    *work.Folder
	o    *work.Overlay
	base *memBase
	log  []string
	n    int

	crashIn int // steps until the process dies; 0 and less: not
	crashed int
	changed int

	paths []string // what there was at the last comparison
}

func newModel(t testing.TB, seed uint64) *model {
	m := &model{t: t, r: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(), ref: t.TempDir()}
	m.base = newBase().add("geo", "main/t1/a.csv=base a", "main/t1/b.csv=base b", "main/t2/a.csv=base t2 a", "main/t3", "geo/t1/c.csv=base geo c")
	for s, ts := range m.base.tree {
		for tab, fs := range ts {
			noErr(t, os.MkdirAll(filepath.Join(m.ref, s, tab), 0o755))
			for n, f := range fs {
				noErr(t, os.WriteFile(filepath.Join(m.ref, s, tab, n), []byte(m.base.bytes[f.Path]), 0o644))
			}
		}
	}
	m.open()
	t.Cleanup(func() { noErr(t, m.f.Close()) })
	return m
}

func (m *model) open() {
	var err error
	m.f, err = work.Open(m.dir, &work.Options{Step: func(string) {
		if m.crashIn--; m.crashIn == 0 {
			panic(errCrash)
		}
	}})
	noErr(m.t, err)
	m.o = work.NewOverlay(m.f.Current(), m.base)
}

func pick(r *rand.Rand, xs ...string) string { return xs[r.IntN(len(xs))] }

func (m *model) path() string {
	if len(m.paths) > 0 && m.r.IntN(3) > 0 { // what there is, or a name beside it
		p := m.paths[m.r.IntN(len(m.paths))]
		if m.r.IntN(2) == 0 {
			p = filepath.Join(filepath.Dir(p), m.name(strings.Count(p, "/")))
		}
		return p
	}
	p := []string{m.name(0)}
	for range m.r.IntN(5) {
		p = append(p, m.name(len(p)))
	}
	return strings.Join(p, "/")
}

// name is one for that depth. No two share a stem, so that no put replaces
// another file; that is staged_test's matter.
func (m *model) name(depth int) string {
	switch depth {
	case 0:
		return pick(m.r, "main", "main", "main", "main", "geo", "new", "loose.csv")
	case 1:
		return pick(m.r, "t1", "t1", "t2", "t3", "t4", "x.csv")
	}
	return pick(m.r, "a.csv", "b.csv", "c.csv", ".junk", "sub")
}

var errCrash = errors.New("the process dies here")

// survive runs op, which may die in the middle. After a reopen the tree must
// be as before or as after it: then want is done to the real folder, too.
func (m *model) survive(name string, op func() error, want func() error) {
	if m.r.IntN(2) == 0 {
		m.crashIn = 1 + m.r.IntN(3)
	}
	err, died := func() (err error, died bool) {
		defer func() {
			if x := recover(); x != nil {
				if x != any(errCrash) {
					panic(x)
				}
				died = true
			}
		}()
		return op(), false
	}()
	m.crashIn = 0
	if !died {
		m.both(name, err, want())
		return
	}
	m.crashed++
	m.log = append(m.log, name+" dies")
	noErr(m.t, m.f.Close())
	m.open()
	if !maps.Equal(m.refTree(), tree(m.t, m.o, m.base)) {
		if err := want(); err != nil {
			m.t.Errorf("%s died, would have failed with %v", name, err)
		}
	}
}

func (m *model) step(i int) {
	p, q := m.path(), m.path()
	if m.r.IntN(2) == 0 { // neighbours meet more often
		q = filepath.Join(filepath.Dir(p), filepath.Base(q))
	}
	ref := func(p string) string { return filepath.Join(m.ref, p) }
	m.n++
	text := fmt.Sprint("text ", m.n)
	switch op := m.r.IntN(100); {
	case op < 22:
		m.both("write "+p, write(m.o, m.base, p, text), refWrite(ref(p), os.O_TRUNC, text))
	case op < 28:
		m.both("append "+p, m.append(p, text), refWrite(ref(p), 0, text))
	case op < 32:
		m.survive("truncate "+p, func() error { return m.o.Truncate(p, 3, m.base.open) }, func() error { return os.Truncate(ref(p), 3) })
	case op < 47:
		m.survive("unlink "+p, func() error { return m.o.Unlink(p) }, func() error { return syscall.Unlink(ref(p)) })
	case op < 57:
		m.survive("mkdir "+p, func() error { _, err := m.o.Mkdir(p, 0o755); return err }, func() error { return syscall.Mkdir(ref(p), 0o755) })
	case op < 65:
		if _, base := m.base.tree[p]; base {
			if err := m.o.Rmdir(p); !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOTEMPTY) {
				m.t.Errorf("rmdir %s, a schema of the base: %v", p, err)
			}
			return
		}
		m.survive("rmdir "+p, func() error { return m.o.Rmdir(p) }, func() error { return syscall.Rmdir(ref(p)) })
	case op < 92:
		flags := uint(0)
		if m.r.IntN(5) == 0 {
			flags = unix.RENAME_NOREPLACE
		}
		m.rename(p, q, flags)
	case op < 95:
		m.log = append(m.log, "reopen")
		noErr(m.t, m.f.Close())
		m.open()
	case op < 97:
		m.log = append(m.log, "take, put back")
		if taken := m.take(); taken != nil {
			m.compare()
			noErr(m.t, taken.PutBack())
		}
	default:
		m.commit()
	}
	if i%8 == 0 || strings.HasSuffix(m.log[len(m.log)-1], "errno 0") || !strings.Contains(m.log[len(m.log)-1], ": ") {
		m.compare()
	}
}

func refWrite(p string, flag int, text string) error {
	if flag == 0 {
		flag = os.O_APPEND
	}
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|flag, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (m *model) append(p, text string) error {
	h, _, err := m.o.Create(p, os.O_WRONLY, 0o644, m.base.open)
	if err != nil {
		return err
	}
	st, err := h.Stat()
	noErr(m.t, err)
	_, err = h.WriteAt([]byte(text), st.Size())
	return errors.Join(err, h.Close())
}

func errno(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}

func (m *model) both(op string, got, want error) {
	m.log = append(m.log, fmt.Sprintf("%s: %v", op, errno(got)))
	if got == nil {
		m.changed++
	}
	if errno(got) != errno(want) || (got == nil) != (want == nil) {
		m.t.Errorf("%s: got %v, a file system says %v", op, got, want)
	}
}

// rename allows the answers that a plain file system does not give, each only
// where it is due, and then expects nothing to have changed.
func (m *model) rename(p, q string, flags uint) {
	e, lerr := m.o.Lookup(p)
	_, qerr := m.o.Lookup(q)
	op := fmt.Sprintf("rename %s %s %d", p, q, flags)
	var deviates error
	run := func() error {
		err := m.o.Rename(p, q, flags)
		switch {
		case errors.Is(err, syscall.EPERM):
			_, baseP := m.base.tree[p]
			_, baseQ := m.base.tree[q]
			if !baseP && !baseQ {
				m.t.Errorf("%s: EPERM", op)
			}
			deviates = err
		case errors.Is(err, syscall.EXDEV):
			level := func(s string) int { return min(strings.Count(s, "/"), 2) }
			sameDir := filepath.Dir(p) == filepath.Dir(q)
			if lerr != nil || e.Kind == work.KindStaged || (e.Kind == work.KindBase && sameDir) ||
				(e.Kind == work.KindDir && level(p) == level(q) && (level(p) != 1 || sameDir)) {
				m.t.Errorf("%s: EXDEV", op)
			}
			deviates = err
		}
		return err
	}
	want := func() error {
		if deviates != nil {
			return deviates
		}
		return unix.Renameat2(unix.AT_FDCWD, filepath.Join(m.ref, p), unix.AT_FDCWD, filepath.Join(m.ref, q), flags)
	}
	if qerr == nil && e.Kind == work.KindDir { // over an empty folder: two steps, the first is rmdir
		m.both(op, run(), want())
		return
	}
	m.survive(op, run, want)
}

// take takes what a commit would accept; nil when names clash.
func (m *model) take() *work.Taken {
	cs, err := m.o.Staged()
	if errors.Is(err, work.ErrName) {
		return nil
	}
	noErr(m.t, err)
	var ok []work.Change
	for _, c := range cs {
		if !strings.Contains(c.Name, "/") { // a real commit refuses those
			ok = append(ok, c)
		}
	}
	taken, err := m.o.Take(ok)
	noErr(m.t, err)
	return taken
}

// commit makes what is staged the base; nothing of the tree may change but
// loose files, which come to lie in their table.
func (m *model) commit() {
	taken := m.take()
	if taken == nil {
		return
	}
	m.log = append(m.log, fmt.Sprint("commit ", shorts(taken.Changes)))
	m.compare()
	next := m.base.apply(m.t, taken.Changes)
	for _, c := range taken.Changes {
		from := filepath.Join(m.ref, strings.TrimPrefix(c.Path, "tables/"))
		to := filepath.Join(m.ref, c.Schema, c.Table, c.Name)
		if c.Kind == work.Put && from != to {
			aside := filepath.Join(m.t.TempDir(), "aside") // it may have the table's name
			noErr(m.t, os.Rename(from, aside))
			noErr(m.t, os.MkdirAll(filepath.Dir(to), 0o755))
			noErr(m.t, os.Rename(aside, to))
		}
	}
	for p := range tree(m.t, m.o, m.base) { // a base file under a junk name is gone with its rows
		if e, err := m.o.Lookup(strings.TrimSuffix(p, "/")); err == nil && e.Kind == work.KindBase && filepath.Base(p) == ".junk" {
			noErr(m.t, os.Remove(filepath.Join(m.ref, p)))
		}
	}
	m.base = next
	noErr(m.t, taken.Done(next))
	left, err := m.o.Staged()
	if err != nil && !errors.Is(err, work.ErrName) {
		m.t.Error(err)
	}
	for _, c := range left {
		if !strings.Contains(c.Name, "/") {
			m.t.Errorf("still staged after commit: %s", short(c))
		}
	}
}

// refTree is what tree is, of the real folder.
func (m *model) refTree() map[string]string {
	m.t.Helper()
	want := map[string]string{}
	err := filepath.Walk(m.ref, func(p string, fi os.FileInfo, err error) error {
		rel, _ := filepath.Rel(m.ref, p)
		if err != nil || rel == "." {
			return err
		}
		if fi.IsDir() {
			want[rel+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(p)
		want[rel] = string(text)
		return err
	})
	noErr(m.t, err)
	return want
}

func (m *model) compare() {
	m.t.Helper()
	want := m.refTree()
	m.paths = nil
	for _, p := range slices.Sorted(maps.Keys(want)) {
		m.paths = append(m.paths, strings.TrimSuffix(p, "/"))
	}
	got := tree(m.t, m.o, m.base)
	if maps.Equal(want, got) { // cmp.Diff is slow
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		m.t.Errorf("tree (-file system +overlay):\n%s", d)
	}
}
