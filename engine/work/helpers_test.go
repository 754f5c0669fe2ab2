package work_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/work"
)

var baseTime = time.Date(2026, 10, 12, 14, 3, 5, 123456789, time.UTC)

// memBase is a base version in memory: schema -> table -> file name.
type memBase struct {
	tree  map[string]map[string]map[string]work.BaseFile
	bytes map[string]string // stored path -> bytes
	next  int64
}

func newBase() *memBase {
	return &memBase{tree: map[string]map[string]map[string]work.BaseFile{}, bytes: map[string]string{}}
}

// add puts files into tables: "main/towns/a.csv=bytes"; "main/towns" an empty table; "main" an empty schema.
func (b *memBase) add(specs ...string) *memBase {
	for _, spec := range specs {
		path, text, _ := strings.Cut(spec, "=")
		p := strings.SplitN(path, "/", 3)
		if b.tree[p[0]] == nil {
			b.tree[p[0]] = map[string]map[string]work.BaseFile{}
		}
		if len(p) > 1 && b.tree[p[0]][p[1]] == nil {
			b.tree[p[0]][p[1]] = map[string]work.BaseFile{}
		}
		if len(p) > 2 {
			b.next++
			f := work.BaseFile{Name: p[2], Path: fmt.Sprintf("data/%s/%s/f%d", p[0], p[1], b.next), Size: int64(len(text)), ModTime: baseTime, DataFileID: b.next, Logical: true}
			b.bytes[f.Path] = text
			b.tree[p[0]][p[1]][p[2]] = f
		}
	}
	return b
}

func (b *memBase) clone() *memBase {
	c := &memBase{tree: map[string]map[string]map[string]work.BaseFile{}, bytes: maps.Clone(b.bytes), next: b.next}
	for s, ts := range b.tree {
		c.tree[s] = map[string]map[string]work.BaseFile{}
		for t, fs := range ts {
			c.tree[s][t] = maps.Clone(fs)
		}
	}
	return c
}

func (b *memBase) Schemas() []string        { return slices.Sorted(maps.Keys(b.tree)) }
func (b *memBase) Tables(s string) []string { return slices.Sorted(maps.Keys(b.tree[s])) }
func (b *memBase) Files(s, t string) []work.BaseFile {
	fs := b.tree[s][t]
	out := make([]work.BaseFile, 0, len(fs))
	for _, n := range slices.Sorted(maps.Keys(fs)) {
		out = append(out, fs[n])
	}
	return out
}

type memSource struct{ *bytes.Reader }

func (memSource) Close() error { return nil }

func (b *memBase) open(f work.BaseFile) (work.Source, error) {
	text, ok := b.bytes[f.Path]
	if !ok {
		return nil, os.ErrNotExist
	}
	return memSource{bytes.NewReader([]byte(text))}, nil
}

// apply is what a commit makes of changes, with the bytes of the puts.
func (b *memBase) apply(t testing.TB, changes []work.Change) *memBase {
	t.Helper()
	n := b.clone()
	table := func(s, tab string) map[string]work.BaseFile {
		n.add(s + "/" + tab)
		return n.tree[s][tab]
	}
	type move struct {
		s, name string
		files   map[string]work.BaseFile
	}
	var moves []move
	for _, c := range changes {
		switch c.Kind {
		case work.DropTable:
			delete(n.tree[c.Schema], c.Table)
		case work.RenameTable:
			moves = append(moves, move{c.Schema, c.Table, b.tree[c.Schema][c.FromTable]})
			delete(n.tree[c.Schema], c.FromTable)
		}
	}
	for _, m := range moves {
		n.tree[m.s][m.name] = maps.Clone(m.files)
	}
	for _, c := range changes {
		if c.Kind == work.Remove || c.Kind == work.RenameFile {
			for name, f := range table(c.Schema, c.Table) {
				if f.Path == c.Base.Path {
					delete(table(c.Schema, c.Table), name)
				}
			}
		}
	}
	for _, c := range changes {
		switch c.Kind {
		case work.RenameFile:
			f := *c.Base
			f.Name = c.Name
			table(c.Schema, c.Table)[c.Name] = f
		case work.Put:
			for name := range table(c.Schema, c.Table) {
				if work.Stem(name) == work.Stem(c.Name) {
					delete(table(c.Schema, c.Table), name)
				}
			}
			text, err := os.ReadFile(c.Real)
			if err != nil {
				t.Fatal(err)
			}
			n.add(c.Schema + "/" + c.Table + "/" + c.Name + "=" + string(text))
		}
	}
	return n
}

func openFolder(t testing.TB, dir string, o *work.Options) *work.Folder {
	t.Helper()
	f, err := work.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func newOverlay(t testing.TB, b *memBase) *work.Overlay {
	t.Helper()
	return work.NewOverlay(openFolder(t, t.TempDir(), nil).Current(), b)
}

func noErr(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write creates or replaces a file as a shell's > does.
func write(o *work.Overlay, b *memBase, path, text string) error {
	h, _, err := o.Create(path, os.O_WRONLY|os.O_TRUNC, 0o644, b.open)
	if err != nil {
		return err
	}
	_, err = h.WriteString(text)
	return errors.Join(err, h.Close())
}

func read(o *work.Overlay, b *memBase, path string) (string, error) {
	f, bf, err := o.OpenRead(path)
	if err != nil {
		return "", err
	}
	if bf != nil {
		return b.bytes[bf.Path], nil
	}
	text, err := io.ReadAll(f)
	return string(text), errors.Join(err, f.Close())
}

// tree is everything an overlay shows: folders as "path/", files with their bytes.
func tree(t testing.TB, o *work.Overlay, b *memBase) map[string]string {
	t.Helper()
	out := map[string]string{}
	var walk func(string)
	walk = func(dir string) {
		es, err := o.List(dir)
		if err != nil {
			t.Fatalf("list %q: %v", dir, err)
		}
		if !sort.SliceIsSorted(es, func(i, j int) bool { return es[i].Name < es[j].Name }) {
			t.Errorf("list %q is not sorted", dir)
		}
		for _, e := range es {
			p := filepath.Join(dir, e.Name)
			got, err := o.Lookup(p)
			if err != nil {
				t.Fatalf("lookup %q, which list shows: %v", p, err)
			}
			if !reflect.DeepEqual(e, got) {
				t.Errorf("list and lookup of %q differ:\n%s", p, cmp.Diff(e, got))
			}
			if e.Ino <= 1 || e.Ino == ^uint64(0) {
				t.Errorf("%q has inode %d", p, e.Ino)
			}
			if e.Kind == work.KindDir {
				out[p+"/"] = ""
				walk(p)
				continue
			}
			text, err := read(o, b, p)
			if err != nil {
				t.Fatalf("read %q: %v", p, err)
			}
			if e.Kind != work.KindBase && e.Size != int64(len(text)) {
				t.Errorf("%q: size %d, %d bytes", p, e.Size, len(text))
			}
			out[p] = text
		}
	}
	walk("")
	return out
}

// short is a change as one line.
func short(c work.Change) string {
	kind := map[work.ChangeKind]string{work.Put: "put", work.Remove: "remove", work.RenameFile: "rename", work.DropTable: "drop", work.RenameTable: "rename table"}[c.Kind]
	s := kind + " " + c.Schema + "." + c.Table
	if c.FromTable != "" {
		s += " from " + c.FromTable
	}
	if c.Name != "" {
		s += " " + c.Name
	}
	if c.From != "" {
		s += " from " + c.From
	}
	return s
}

func shorts(cs []work.Change) []string {
	out := []string{}
	for _, c := range cs {
		out = append(out, short(c))
	}
	return out
}

func wantStaged(t testing.TB, o *work.Overlay, want ...string) []work.Change {
	t.Helper()
	cs, err := o.Staged()
	if err != nil {
		t.Fatal(err)
	}
	if want == nil {
		want = []string{}
	}
	if d := cmp.Diff(want, shorts(cs)); d != "" {
		t.Fatalf("staged (-want +got):\n%s", d)
	}
	return cs
}
