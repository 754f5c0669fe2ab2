package work

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The staging folder. Everything the user changed under tables/ is in names
// and file content below it; what is in memory is only read from there.
//
//	files/<name>                       a file in tables/ itself
//	schemas/<S>/files/<name>           a file in tables/<S>/; the folder itself: the user made S
//	schemas/<S>/dropped/<table>        the base's table is not shown
//	schemas/<S>/tables/<T>/            what is staged for the folder tables/<S>/<T>
//	  base                             text: T is the base's table of this name, renamed
//	  removed/<name> -> base:<id>:<p>  the base's file of this name is not shown
//	  files/...                        the files; the folder itself: the user made T
//	  files/<name> -> base:<id>:<p>    a record: the base's file with this identity is shown under this name
//	tmp/                               files that are being made
//
// A table's folder with all it holds is one directory, so that renaming the
// table is one rename, its base's name moving along inside. "removed" and
// records are symbolic links only because a link is made, with its text, in
// one step; nobody follows them. They name the base's file by data file id
// and stored path, so what was said of one file never holds for a later one
// of the same name.
//
// What is shown (S, T the names in tables/):
//
//   - T stands for the base's table named in its "base", else for the base's
//     T, unless that is dropped or shown under another name.
//   - A base file is shown at its record's name if it has one, else at its
//     own if it is not removed and nothing staged lies there.
//
// So taking something off its name is: first "removed" for the base file of
// that name, then the unlink or rename; each step alone changes nothing or
// everything.

// fileKey is the identity of a base file.
type fileKey struct {
	id   int64
	path string
}

func keyOf(f *BaseFile) fileKey { return fileKey{f.DataFileID, f.Path} }

func (k fileKey) link() string { return "base:" + strconv.FormatInt(k.id, 10) + ":" + k.path }

func parseLink(s string) (fileKey, bool) {
	rest, ok := strings.CutPrefix(s, "base:")
	if !ok {
		return fileKey{}, false
	}
	id, path, ok := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(id, 10, 64)
	return fileKey{n, path}, ok && err == nil
}

// stagedTable is what schemas/<S>/tables/<T>/ holds, without its files.
type stagedTable struct {
	from    string             // base's table shown as T; "": T itself, if it is there
	made    bool               // files/ exists
	removed map[string]fileKey // by the base file's own name
	records map[string]fileKey // by the name shown
	claims  map[fileKey]string // records, the other way round
}

// stagedSchema is what schemas/<S>/ holds.
type stagedSchema struct {
	made    bool
	dropped map[string]bool
	tables  map[string]*stagedTable
	claims  map[string]string // base's table -> name shown, for renamed ones
}

func newStagedSchema() *stagedSchema {
	return &stagedSchema{dropped: map[string]bool{}, tables: map[string]*stagedTable{}, claims: map[string]string{}}
}

func newStagedTable() *stagedTable {
	return &stagedTable{removed: map[string]fileKey{}, records: map[string]fileKey{}, claims: map[fileKey]string{}}
}

func (s *stagedSchema) setFrom(name, base string) {
	s.tables[name].from = base
	s.claims[base] = name
}

// removeTable forgets the folder name, which is gone from disk.
func (s *stagedSchema) removeTable(name string) {
	if t := s.tables[name]; t != nil && t.from != "" && s.claims[t.from] == name {
		delete(s.claims, t.from)
	}
	delete(s.tables, name)
}

func (t *stagedTable) setRecord(name string, k fileKey) {
	t.dropRecord(name)
	if old, ok := t.claims[k]; ok {
		delete(t.records, old)
	}
	t.records[name], t.claims[k] = k, name
}

func (t *stagedTable) dropRecord(name string) {
	if k, ok := t.records[name]; ok {
		delete(t.records, name)
		if t.claims[k] == name {
			delete(t.claims, k)
		}
	}
}

// loadStaging reads the markers of a staging folder. Its cost is that of what
// is staged, not of the base.
func loadStaging(t stagingTree) (map[string]*stagedSchema, error) {
	schemas := map[string]*stagedSchema{}
	names, err := readNames(t.schemasDir())
	if err != nil {
		return nil, err
	}
	for _, s := range names {
		ss := newStagedSchema()
		if ss.made, err = exists(filepath.Join(t.schemaDir(s), "files")); err != nil {
			return nil, err
		}
		dropped, err := readNames(filepath.Join(t.schemaDir(s), "dropped"))
		if err != nil {
			return nil, err
		}
		for _, d := range dropped {
			ss.dropped[d] = true
		}
		tables, err := readNames(filepath.Join(t.schemaDir(s), "tables"))
		if err != nil {
			return nil, err
		}
		for _, name := range tables {
			if err := loadTable(t, ss, s, name); err != nil {
				return nil, err
			}
		}
		schemas[s] = ss
	}
	return schemas, nil
}

func loadTable(t stagingTree, ss *stagedSchema, s, name string) error {
	st := newStagedTable()
	ss.tables[name] = st
	base, err := os.ReadFile(t.from(s, name))
	if ignoreMissing(err) != nil {
		return err
	}
	if len(base) > 0 {
		ss.setFrom(name, string(base))
	}
	if st.made, err = exists(filepath.Join(t.tableDir(s, name), "files")); err != nil {
		return err
	}
	err = readLinks(filepath.Join(t.tableDir(s, name), "removed"), func(n string, k fileKey) { st.removed[n] = k })
	if err != nil {
		return err
	}
	return readLinks(filepath.Join(t.tableDir(s, name), "files"), st.setRecord)
}

// readLinks calls fn for each link of ours in dir.
func readLinks(dir string, fn func(name string, k fileKey)) error {
	ents, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range ents {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		text, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if k, ok := parseLink(text); ok {
			fn(e.Name(), k)
		}
	}
	return nil
}

// replaceLink makes a link, in place of whatever file lies there, in one step.
func (t stagingTree) replaceLink(path, text string) error {
	tmp, err := t.tempName()
	if err != nil {
		return err
	}
	if err := os.Symlink(text, tmp); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return os.Rename(tmp, path)
}
