package repo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// Kind of an entry of files.json.
type Kind string

// The kinds. Part of the format; an unknown one is refused, because ignoring a
// kind of deletion would show deleted rows.
const (
	DataFile   Kind = "data"
	DeleteFile Kind = "delete"
)

// File is one entry of files.json: a stored file that the version names.
type File struct {
	Path         string // below the root: data/main/towns/towns-<uuid>.parquet
	Kind         Kind
	ID           int64  // DuckLake's data_file_id or delete_file_id
	DataFileID   int64  // of a delete file: the data file whose rows it deletes
	Schema       string // of a data file
	Table        string // of a data file
	TableID      int64  // of a data file
	Rows         int64
	Bytes        int64
	SHA256       string // hex, when known
	Logical      bool   // the stored rows and columns are the table's at this version
	Name         string // as dropped, such as towns.csv; empty for a file made by SQL
	SourceSHA256 string // of the dropped bytes, hex
	Extra        map[string]json.RawMessage
}

// Files is files.json as an index: what a version names, found by path, folder,
// table or id without opening its catalog. Immutable and safe for concurrent
// use; the *File it hands out must not be changed.
type Files struct {
	dataDir string
	list    []File // sorted by path
	byTable map[tableKey][]int32
	byID    []int32           // data files, sorted by ID
	deletes map[int64][]int32 // data file ID -> its delete files
	extra   map[string]json.RawMessage
}

type tableKey struct{ schema, table string }

// NewFiles makes an index. It takes list over. Paths must lie below dataDir and
// be different; every delete file must belong to a data file of the list.
func NewFiles(dataDir string, list []File) (*Files, error) {
	for i := range list {
		if err := list[i].check(dataDir); err != nil {
			return nil, err
		}
	}
	return indexFiles(dataDir, list)
}

func (f *File) check(dataDir string) error {
	if why := dataPathFault(f.Path, dataDir); why != "" {
		return fmt.Errorf("path %q %s", clip(f.Path), why)
	}
	switch {
	case f.Kind != DataFile && f.Kind != DeleteFile:
		return fmt.Errorf("%s: kind %q is not known", f.Path, clip(string(f.Kind)))
	case min(f.ID, f.DataFileID, f.TableID, f.Rows, f.Bytes) < 0:
		return fmt.Errorf("%s: a negative id or count", f.Path)
	case f.SHA256 != "" && !isHash(f.SHA256), f.SourceSHA256 != "" && !isHash(f.SourceSHA256):
		return fmt.Errorf("%s: a sha256 is not 64 lower-case hex digits", f.Path)
	}
	for _, s := range []string{f.Schema, f.Table, f.Name} {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return fmt.Errorf("%s: a name is not valid UTF-8 without NUL", f.Path)
		}
	}
	return nil
}

// indexFiles sorts and indexes entries that are each good, and checks them
// together.
func indexFiles(dataDir string, list []File) (*Files, error) {
	byPath := func(a, b File) int { return cmp.Compare(a.Path, b.Path) }
	if !slices.IsSortedFunc(list, byPath) {
		slices.SortFunc(list, byPath)
	}
	x := &Files{dataDir: dataDir, list: list, byTable: map[tableKey][]int32{}, deletes: map[int64][]int32{}}
	folder := ""
	for i := range list {
		f := &list[i]
		if i > 0 && list[i-1].Path == f.Path {
			return nil, fmt.Errorf("%s is named twice", f.Path)
		}
		if dir := f.Path[:strings.LastIndexByte(f.Path, '/')]; dir != folder {
			if err := x.checkFolder(dir); err != nil {
				return nil, err
			}
			folder = dir
		}
		if f.Kind == DeleteFile {
			x.deletes[f.DataFileID] = append(x.deletes[f.DataFileID], int32(i))
			continue
		}
		k := tableKey{f.Schema, f.Table}
		x.byTable[k] = append(x.byTable[k], int32(i))
		x.byID = append(x.byID, int32(i))
	}
	slices.SortFunc(x.byID, func(a, b int32) int { return cmp.Compare(list[a].ID, list[b].ID) })
	for i := 1; i < len(x.byID); i++ {
		if a, b := &list[x.byID[i-1]], &list[x.byID[i]]; a.ID == b.ID {
			return nil, fmt.Errorf("%s and %s have the same id %d", a.Path, b.Path, a.ID)
		}
	}
	for id, deletes := range x.deletes {
		if _, ok := x.ByID(id); !ok {
			return nil, fmt.Errorf("%s deletes rows of data file %d, which is not named", list[deletes[0]].Path, id)
		}
	}
	return x, nil
}

// checkFolder: no file stands where another needs a folder. Asked once for each
// run of files of one folder.
func (x *Files) checkFolder(dir string) error {
	for len(dir) > len(x.dataDir) {
		if x.Has(dir) {
			return fmt.Errorf("%s is named as a file and as a folder", dir)
		}
		dir = dir[:strings.LastIndexByte(dir, '/')]
	}
	return nil
}

// DataDir is the folder that holds every path; it ends in a slash.
func (x *Files) DataDir() string { return x.dataDir }

// Len is the number of entries.
func (x *Files) Len() int { return len(x.list) }

// All yields every entry, sorted by path.
func (x *Files) All() iter.Seq[*File] {
	return func(yield func(*File) bool) {
		for i := range x.list {
			if !yield(&x.list[i]) {
				return
			}
		}
	}
}

func (x *Files) search(path string) int {
	return sort.Search(len(x.list), func(i int) bool { return x.list[i].Path >= path })
}

// Get finds the entry of a path below the root.
func (x *Files) Get(path string) (*File, bool) {
	if i := x.search(path); i < len(x.list) && x.list[i].Path == path {
		return &x.list[i], true
	}
	return nil, false
}

// Has tells whether the version names path.
func (x *Files) Has(path string) bool {
	_, ok := x.Get(path)
	return ok
}

// ByID finds a data file by its data_file_id.
func (x *Files) ByID(id int64) (*File, bool) {
	i := sort.Search(len(x.byID), func(i int) bool { return x.list[x.byID[i]].ID >= id })
	if i < len(x.byID) && x.list[x.byID[i]].ID == id {
		return &x.list[x.byID[i]], true
	}
	return nil, false
}

// Deletes are the delete files of a data file, sorted by path.
func (x *Files) Deletes(dataFileID int64) []*File { return x.pick(x.deletes[dataFileID]) }

// Of are the data files of a table, sorted by path.
func (x *Files) Of(schema, table string) []*File { return x.pick(x.byTable[tableKey{schema, table}]) }

func (x *Files) pick(at []int32) []*File {
	list := make([]*File, len(at))
	for i, n := range at {
		list[i] = &x.list[n]
	}
	return list
}

// Schemas are the schemas that have a data file, sorted. An empty table has
// none: dataset.json knows it.
func (x *Files) Schemas() []string {
	var names []string
	for k := range x.byTable {
		names = append(names, k.schema)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Tables are the tables of a schema that have a data file, sorted.
func (x *Files) Tables(schema string) []string {
	var names []string
	for k := range x.byTable {
		if k.schema == schema {
			names = append(names, k.table)
		}
	}
	slices.Sort(names)
	return names
}

// ReadDir lists one folder: dir is below the root and ends in a slash, such as
// DataDir(). Names are sorted; the cost grows with the folder's own entries
// alone. A folder that does not exist is empty.
func (x *Files) ReadDir(dir string) (folders []string, files []*File) {
	for i := x.search(dir); i < len(x.list); {
		rest, ok := strings.CutPrefix(x.list[i].Path, dir)
		if !ok {
			break
		}
		name, _, deeper := strings.Cut(rest, "/")
		if !deeper {
			files = append(files, &x.list[i])
			i++
			continue
		}
		folders = append(folders, name)
		i = x.search(dir + name + "0") // '0' follows '/': past everything below the folder
	}
	slices.Sort(folders)
	return folders, files
}

// With is an index of the same files without those of remove, and with those of
// add.
func (x *Files) With(add []File, remove func(*File) bool) (*Files, error) {
	list := make([]File, 0, len(x.list)+len(add))
	for i := range x.list {
		if remove == nil || !remove(&x.list[i]) {
			list = append(list, x.list[i])
		}
	}
	next, err := NewFiles(x.dataDir, append(list, add...))
	if err != nil {
		return nil, err
	}
	next.extra = x.extra
	return next, nil
}

var errStop = errors.New("stop") // the consumer of an iteration wants no more
