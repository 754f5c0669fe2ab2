package engine

import (
	"context"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// versionFiles is where a version's bytes lie: the repository, or the outbox
// of a working folder while it is not published.
type versionFiles interface {
	// openFile opens a file of the version's folder, checked against sum (hex).
	openFile(ctx context.Context, id repo.ID, name, sum string) (File, error)
	// sizeOf is the size of a file of the version's folder.
	sizeOf(ctx context.Context, id repo.ID, name, sum string) (int64, error)
	// openData opens a stored file by its path below the root; openKnown spares
	// the store questions whose answers are known.
	openData(ctx context.Context, path string) (File, error)
	openKnown(ctx context.Context, s stored) (File, error)
	// localPath is a local file with the content of a stored file, for the
	// worker; it stays as long as the hold of ctx.
	localPath(ctx context.Context, s stored) (string, error)
	// localCatalog is a local file with the frozen catalog, likewise.
	localCatalog(ctx context.Context, id repo.ID, sum string) (string, error)
}

// versionTree is one version as folders. It implements VersionTree.
type versionTree struct {
	e     *Engine
	meta  *repo.Version // nil: the empty version
	where versionFiles

	loadMu sync.Mutex // one load at a time; guards index
	index  *versionIndex

	entries atomic.Int64             // of files.json, once it is loaded
	names   atomic.Pointer[[]string] // see folderNames

	sizes sync.Map // data file id -> true size of a rewrite that is not the announced one
}

// versionIndex is what files.json and dataset.json say, by folder of tables/.
type versionIndex struct {
	files   *repo.Files
	dataset *repo.Dataset
	schemas []string
	tables  map[string][]string    // schema -> tables
	shown   map[string][]TableFile // schema/table -> files
}

func (t *versionTree) ID() repo.ID {
	if t.meta == nil {
		return ""
	}
	return t.meta.ID
}

func (t *versionTree) Time() time.Time {
	if t.meta == nil {
		return time.Time{}
	}
	return t.meta.CreatedAt
}

// Load reads files.json and dataset.json, checked against version.json.
func (t *versionTree) Load(ctx context.Context) error {
	_, err := t.loaded(ctx)
	return err
}

func (t *versionTree) loaded(ctx context.Context) (*versionIndex, error) {
	t.loadMu.Lock()
	defer t.loadMu.Unlock()
	if t.index != nil {
		return t.index, nil
	}
	none, err := repo.NewFiles(t.e.repo.DataDir(), nil)
	if err != nil {
		return nil, err
	}
	ix := &versionIndex{files: none, dataset: &repo.Dataset{}, tables: map[string][]string{}, shown: map[string][]TableFile{}}
	if t.meta != nil {
		if err := t.readIndex(ctx, ix); err != nil {
			return nil, err
		}
	}
	t.useLocked(ix)
	return ix, nil
}

// use makes an index that was just made from what files.json and dataset.json
// say the version's own. ix is the tree's from then on.
func (t *versionTree) use(ix *versionIndex) {
	t.loadMu.Lock()
	defer t.loadMu.Unlock()
	t.useLocked(ix)
}

func (t *versionTree) useLocked(ix *versionIndex) {
	ix.build(t)
	t.index = ix
	t.entries.Store(int64(ix.files.Len()))
}

// readFile reads a small file of the version's folder, checked.
func (t *versionTree) readFile(ctx context.Context, name string) ([]byte, error) {
	f, err := t.where.openFile(ctx, t.meta.ID, name, t.meta.SHA256[name])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, f.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, f.Size()), b); err != nil {
		return nil, err
	}
	return b, nil
}

// build sorts the index into the folders of tables/. A table without files is
// known from dataset.json alone.
func (ix *versionIndex) build(t *versionTree) {
	// Every DuckLake catalog has the schema main: its folder is there for the
	// first file that is dropped.
	tables := map[string]map[string]bool{"main": {}}
	add := func(schema, table string) {
		if tables[schema] == nil {
			tables[schema] = map[string]bool{}
		}
		tables[schema][table] = true
	}
	for _, d := range ix.dataset.Tables {
		add(d.Schema, d.Name)
	}
	for f := range ix.files.All() {
		if f.Kind != repo.DataFile {
			continue
		}
		add(f.Schema, f.Table)
		key := f.Schema + "/" + f.Table
		shown := TableFile{
			Name: shownName(f), Path: f.Path, Size: f.Bytes, ModTime: fileTime(f.Path, t.Time()),
			DataFileID: f.ID, SHA256: f.SHA256, Logical: f.Logical,
		}
		if !f.Logical {
			shown.Size, shown.Content = announcedSize(f.Bytes), string(t.meta.ID)
		}
		ix.shown[key] = append(ix.shown[key], shown)
	}
	for schema, names := range tables {
		ix.schemas = append(ix.schemas, schema)
		ix.tables[schema] = slices.Sorted(maps.Keys(names))
	}
	slices.Sort(ix.schemas)
	for _, files := range ix.shown {
		uniqueNames(files)
		slices.SortFunc(files, func(a, b TableFile) int { return strings.Compare(a.Name, b.Name) })
	}
}

// shownName is a data file's name in tables/: the stem it was dropped under,
// or, made by SQL, its stored name.
func shownName(f *repo.File) string {
	if f.Name != "" {
		return Stem(f.Name) + ".parquet"
	}
	return path.Base(f.Path)
}

// Stem is a file name without its last suffix: its identity in a table folder.
func Stem(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) }

// uniqueNames makes names unique that partition folders, which tables/ does
// not show, had kept apart.
func uniqueNames(files []TableFile) {
	slices.SortFunc(files, func(a, b TableFile) int { return strings.Compare(a.Path, b.Path) })
	seen := map[string]int{}
	for i := range files {
		n := seen[files[i].Name]
		seen[files[i].Name]++
		if n > 0 {
			files[i].Name = Stem(files[i].Name) + "~" + itoa(n) + ".parquet"
		}
	}
}

// announcedSize is what stat says of a file that is rewritten on first open.
func announcedSize(stored int64) int64 { return stored + stored/2 + 1<<20 }

// fileTime is the modification time of a stored file: the moment in the
// UUIDv7 of its name, which is the same in every version that names it, so
// that rsync and make see an unchanged file as unchanged; else the version's.
func fileTime(p string, version time.Time) time.Time {
	name := strings.TrimSuffix(path.Base(p), ".parquet")
	name = strings.TrimSuffix(name, "-delete")
	if len(name) >= 36 {
		if u, err := uuid.Parse(name[len(name)-36:]); err == nil && u.Version() == 7 {
			sec, nsec := u.Time().UnixTime()
			return time.Unix(sec, nsec).UTC()
		}
	}
	return version
}

func (t *versionTree) Schemas() []string             { return t.index.schemas }
func (t *versionTree) Tables(schema string) []string { return t.index.tables[schema] }

// DataDirs lists the folders of one folder of data/.
func (t *versionTree) DataDirs(dir string) []string {
	dirs, _ := t.index.files.ReadDir(t.dataFolder(dir))
	return dirs
}

// DataFiles lists the files of one folder of data/.
func (t *versionTree) DataFiles(dir string) []DataFile {
	_, files := t.index.files.ReadDir(t.dataFolder(dir))
	out := make([]DataFile, len(files))
	for i, f := range files {
		out[i] = DataFile{Path: f.Path[len(t.e.repo.DataDir()):], Size: f.Bytes, ModTime: fileTime(f.Path, t.Time())}
	}
	return out
}

// dataFolder is the folder below the root that data/<dir> shows.
func (t *versionTree) dataFolder(dir string) string {
	if dir == "" {
		return t.e.repo.DataDir()
	}
	return t.e.repo.DataDir() + dir + "/"
}

func (t *versionTree) Files(schema, table string) []TableFile {
	return t.index.shown[schema+"/"+table]
}

// FolderFiles lists the version's folder.
func (t *versionTree) FolderFiles() []FolderFile {
	if t.meta == nil {
		return nil
	}
	var out []FolderFile
	for _, name := range t.folderNames(context.Background()) {
		out = append(out, FolderFile{Name: name, Size: t.folderSize(name)})
	}
	return out
}

// folderSize asks for the size of a folder file; -1 when it cannot be had.
func (t *versionTree) folderSize(name string) int64 {
	n, err := t.where.sizeOf(context.Background(), t.meta.ID, name, t.meta.SHA256[name])
	if err != nil {
		t.e.log.Warn("size of a version's file", keyVersion, string(t.meta.ID), keyPath, name, keyErr, err)
		return -1
	}
	return n
}

func (t *versionTree) OpenFolderFile(ctx context.Context, name string) (File, error) {
	if t.meta == nil || !slices.Contains(t.folderNames(ctx), name) {
		return nil, outcome.New(outcome.NotFound, "no such file in the version: "+name, "")
	}
	return t.where.openFile(ctx, t.meta.ID, name, t.meta.SHA256[name])
}

func (t *versionTree) OpenData(ctx context.Context, p string) (File, error) {
	ix, err := t.loaded(ctx)
	if err != nil {
		return nil, err
	}
	full := t.e.repo.DataDir() + p
	f, ok := ix.files.Get(full)
	if !ok {
		return nil, outcome.New(outcome.NotFound, "the version names no file "+p, "")
	}
	return t.where.openKnown(ctx, storedFile(f))
}

// AttachSQL is attach.sql of this version, seen at dir.
func (t *versionTree) AttachSQL(dir string) string {
	if t.meta == nil {
		return attachNothing()
	}
	return attachVersion(dir, t.e.URL())
}
