package fs_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// Versions of the fake repository.
const (
	v1 = repo.ID("019a0000-0000-7000-8000-000000000001")
	v2 = repo.ID("019a0000-0000-7000-8000-000000000002")
	v3 = repo.ID("019a0000-0000-7000-8000-000000000003") // named by no ref
)

var (
	time1 = time.Date(2026, 10, 12, 14, 3, 5, 0, time.UTC)
	time2 = time.Date(2026, 10, 13, 9, 0, 0, 0, time.UTC)
)

// fakeFile is an engine.File over a real file.
type fakeFile struct {
	*os.File
	size  int64
	local bool
}

func (f *fakeFile) Size() int64         { return f.size }
func (f *fakeFile) Fd() (uintptr, bool) { return f.File.Fd(), f.local }

func openFake(name string, local bool) (engine.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &fakeFile{f, st.Size(), local}, nil
}

// fakeRepo is a repository in a folder: root/data holds the stored files.
type fakeRepo struct {
	root string

	mu       sync.Mutex
	head     string
	branches map[string]repo.ID
	tags     map[string]repo.ID
	versions map[repo.ID]*fakeVersion
	remote   bool // files have no descriptor
	fail     error
}

// newFakeRepo makes the repository of the tests in dir.
func newFakeRepo(dir string) (*fakeRepo, error) {
	r := &fakeRepo{root: dir, head: "main",
		branches: map[string]repo.ID{"main": v2, "feature/x": v1, "blank": ""},
		tags:     map[string]repo.ID{"v1": v1},
		versions: map[repo.ID]*fakeVersion{},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for name, size := range map[string]int{
		"data/main/towns/towns-1.parquet": 300_000, "data/main/towns/more-2.parquet": 5000,
		"data/main/del/del-3.parquet": 9000, "rewritten-2": 20_000, "rewritten-3": 21_000,
		"versions/json": 120, "versions/catalog": 4096,
	} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			return nil, err
		}
	}
	towns := work.BaseFile{Name: "towns.parquet", Path: "data/main/towns/towns-1.parquet", Size: 300_000, ModTime: time1, Logical: true, DataFileID: 1}
	more := work.BaseFile{Name: "more.parquet", Path: "data/main/towns/more-2.parquet", Size: 5000, ModTime: time2, Logical: true, DataFileID: 2}
	del := work.BaseFile{Name: "del.parquet", Path: "data/main/del/del-3.parquet", Size: 15_000, ModTime: time1, DataFileID: 3}
	r.add(&fakeVersion{id: "", tables: map[string][]work.BaseFile{}})
	r.add(&fakeVersion{id: v1, at: time1, tables: map[string][]work.BaseFile{"main/towns": {towns}}})
	r.add(&fakeVersion{id: v2, at: time2, tables: map[string][]work.BaseFile{"main/towns": {more, towns}, "main/del": {del}}, rewritten: "rewritten-2"})
	r.add(&fakeVersion{id: v3, at: time2, tables: map[string][]work.BaseFile{"main/del": {del}}, rewritten: "rewritten-3"})
	return r, nil
}

func (r *fakeRepo) add(v *fakeVersion) { v.r = r; r.versions[v.id] = v }

// move sets a branch.
func (r *fakeRepo) move(branch string, id repo.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.branches[branch] = id
}

func notFound(what string) error {
	return outcome.New(outcome.NotFound, "no "+what, "look elsewhere")
}

func (r *fakeRepo) Head(context.Context) (string, error) { return r.head, r.fail }

func keys(m map[string]repo.ID) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

func (r *fakeRepo) Branches(context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return keys(r.branches), r.fail
}

func (r *fakeRepo) Tags(context.Context) ([]string, error) { return keys(r.tags), r.fail }

func (r *fakeRepo) BranchTarget(_ context.Context, name string) (repo.ID, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok := r.branches[name]
	if r.fail != nil {
		return "", r.fail
	}
	if !ok {
		return "", notFound("branch " + name)
	}
	return id, nil
}

func (r *fakeRepo) TagTarget(_ context.Context, name string) (repo.ID, error) {
	id, ok := r.tags[name]
	if !ok {
		return "", notFound("tag " + name)
	}
	return id, nil
}

func (r *fakeRepo) History(ctx context.Context, branch string, n int) ([]engine.HistoryEntry, error) {
	id, err := r.BranchTarget(ctx, branch)
	if err != nil {
		return nil, err
	}
	list := []engine.HistoryEntry{{Name: "0001_2026-10-12T14-03-05Z", ID: v1, Time: time1}, {Name: "0002_2026-10-13T09-00-00Z", ID: v2, Time: time2}}
	switch id {
	case "":
		return nil, nil
	case v1:
		list = list[:1]
	}
	return list[max(0, len(list)-n):], nil
}

func (r *fakeRepo) ByDate(_ context.Context, text string) (repo.ID, error) {
	t, err := time.Parse("2006-01-02", text)
	if err == nil {
		t = t.AddDate(0, 0, 1)
	} else if t, err = time.Parse(time.RFC3339, strings.Replace(text, "-", ":", -1)); err != nil {
		if t, err = time.Parse("2006-01-02T15-04-05Z", text); err != nil {
			if t, err = time.Parse(time.RFC3339, text); err != nil {
				return "", outcome.New(outcome.Usage, "not a date", "")
			}
		}
	}
	switch {
	case !t.Before(time2):
		return v2, nil
	case !t.Before(time1):
		return v1, nil
	}
	return "", notFound("version before")
}

func (r *fakeRepo) Version(_ context.Context, id repo.ID) (engine.VersionTree, error) {
	v, ok := r.versions[id]
	if !ok {
		return nil, notFound("version " + string(id))
	}
	return v, nil
}

func (r *fakeRepo) VersionIDs(context.Context) ([]repo.ID, error) { return []repo.ID{v1, v2}, r.fail }

// fakeVersion is a version of a fakeRepo.
type fakeVersion struct {
	r         *fakeRepo
	id        repo.ID
	at        time.Time
	tables    map[string][]work.BaseFile
	rewritten string // the file that a not logical table file shows
	extra     []engine.FolderFile
	extraData []engine.DataFile

	mu     sync.Mutex
	loaded bool
	grown  bool // the rewrite did not fit
	made   bool
}

func (v *fakeVersion) ID() repo.ID     { return v.id }
func (v *fakeVersion) Time() time.Time { return v.at }
func (v *fakeVersion) Load(context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.loaded = true
	return nil
}

func (v *fakeVersion) need() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.loaded {
		panic("version listed before Load")
	}
}

func (v *fakeVersion) Schemas() []string {
	v.need()
	if len(v.tables) == 0 {
		return nil
	}
	return []string{"main"}
}

func (v *fakeVersion) Tables(schema string) []string {
	v.need()
	var list []string
	for k := range v.tables {
		if s, t, _ := strings.Cut(k, "/"); s == schema {
			list = append(list, t)
		}
	}
	slices.Sort(list)
	return list
}

func (v *fakeVersion) Files(schema, table string) []work.BaseFile {
	v.need()
	return v.tables[schema+"/"+table]
}

// data lists the stored files of the version.
func (v *fakeVersion) data() []engine.DataFile {
	v.need()
	list := slices.Clone(v.extraData)
	for _, files := range v.tables {
		for _, f := range files {
			p := strings.TrimPrefix(f.Path, "data/")
			st, err := os.Stat(filepath.Join(v.r.root, f.Path))
			if err != nil {
				panic(err)
			}
			list = append(list, engine.DataFile{Path: p, Size: st.Size(), ModTime: f.ModTime})
		}
	}
	return list
}

func (v *fakeVersion) DataDirs(dir string) []string {
	seen := map[string]bool{}
	for _, f := range v.data() {
		rest, ok := f.Path, true
		if dir != "" {
			rest, ok = strings.CutPrefix(f.Path, dir+"/")
		}
		if name, _, nested := strings.Cut(rest, "/"); ok && nested {
			seen[name] = true
		}
	}
	var list []string
	for d := range seen {
		list = append(list, d)
	}
	slices.Sort(list)
	return list
}

func (v *fakeVersion) DataFiles(dir string) []engine.DataFile {
	var list []engine.DataFile
	for _, f := range v.data() {
		if d := path.Dir(f.Path); d == dir || d == "." && dir == "" {
			list = append(list, f)
		}
	}
	return list
}

func (v *fakeVersion) FolderFiles() []engine.FolderFile {
	v.need()
	if v.id == "" {
		return nil
	}
	return append([]engine.FolderFile{{Name: "version.json", Size: 120}, {Name: "ducklake.duckdb", Size: 4096}, {Name: "catalogs/lake.duckdb", Size: 4096}}, v.extra...)
}

func (v *fakeVersion) OpenTable(_ context.Context, f engine.TableFile) (engine.File, error) {
	v.need()
	if f.Logical {
		return openFake(filepath.Join(v.r.root, f.Path), !v.r.remote)
	}
	v.mu.Lock()
	v.made = true
	v.mu.Unlock()
	return openFake(filepath.Join(v.r.root, v.rewritten), !v.r.remote)
}

// TableSize announces the true size of what fits, and else 15000 until made.
func (v *fakeVersion) TableSize(f engine.TableFile) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f.Logical || v.grown && !v.made {
		return f.Size
	}
	st, err := os.Stat(filepath.Join(v.r.root, v.rewritten))
	if err != nil {
		panic(err)
	}
	return st.Size()
}

func (v *fakeVersion) OpenData(_ context.Context, p string) (engine.File, error) {
	v.need()
	return openFake(filepath.Join(v.r.root, "data", p), !v.r.remote)
}

func (v *fakeVersion) OpenFolderFile(_ context.Context, name string) (engine.File, error) {
	v.need()
	from := "versions/catalog"
	if name == "version.json" {
		from = "versions/json"
	}
	return openFake(filepath.Join(v.r.root, from), !v.r.remote)
}

func (v *fakeVersion) LogText(context.Context) (string, error) {
	return "log of " + string(v.id) + "\n", nil
}

func (v *fakeVersion) DiffText(context.Context) (string, error) {
	return strings.Repeat("+ a line of a diff\n", 20_000), nil
}

func (v *fakeVersion) AttachSQL(dir string) string { return "ATTACH '" + dir + "/ducklake.duckdb';\n" }

var (
	_ engine.Refs        = (*fakeRepo)(nil)
	_ engine.VersionTree = (*fakeVersion)(nil)
	_ engine.Workspace   = (*fakeWork)(nil)
)
