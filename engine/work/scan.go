package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Scan compares dir/tables of a plain checkout with base and lists the same
// changes that an Overlay would. A file that looks as index remembers it is
// not reported and not read; one that looks otherwise is a Put, and the
// commit finds out whether its bytes are new. A file or table that is gone,
// while one with its identity on disk has come, was renamed. One that index
// does not remember was never there, so that nobody can have removed it. index
// may be nil.
//
// Names that must not be committed come as an ErrName beside the list, as
// from Staged; so do links and other things that are no files.
func Scan(dir string, base Base, index *Index) ([]Change, error) {
	if index == nil {
		index = newIndex()
	}
	s := &scanner{root: filepath.Join(dir, "tables"), base: newBaseView(base), index: index,
		shown: map[string][]string{}}
	if err := s.scan(); err != nil {
		return nil, fmt.Errorf("scan %s: %w", s.root, err)
	}
	changes := withoutReplaced(s.out)
	slices.SortFunc(changes, compareChanges)
	return changes, errors.Join(append(s.refused, checkNames(changes, s))...)
}

type scanner struct {
	root    string
	base    *baseView
	index   *Index
	out     []Change
	refused []error

	schemaNames []string
	tableNames  map[string][]string
	shown       map[string][]string // schema/table -> base files under their own names
}

func (s *scanner) schemas() []string             { return s.schemaNames }
func (s *scanner) tables(schema string) []string { return s.tableNames[schema] }
func (s *scanner) baseFiles(schema, table string) []string {
	return s.shown[schema+"/"+table]
}

func (s *scanner) add(c Change) { s.out = append(s.out, c) }

func (s *scanner) scan() error {
	fi, err := os.Stat(s.root)
	if err != nil || !fi.IsDir() {
		// A missing tables/ is a mistyped path or a half-copied folder, never
		// the wish to drop every table.
		return outcome.Wrap(outcome.NotFound, s.root+" is no folder", err, "name a folder that tarn checkout made")
	}
	s.tableNames = map[string][]string{}
	top, err := s.read(loc{})
	if err != nil {
		return err
	}
	s.loose(loc{}, mainSchema, top)
	for _, d := range top.dirs {
		if _, junk := JunkDir(d); junk && !s.base.hasSchema(d) {
			continue
		}
		s.schemaNames = append(s.schemaNames, d)
		if err := s.schema(d); err != nil {
			return err
		}
	}
	for _, name := range s.base.b.Schemas() {
		if !slices.Contains(top.dirs, name) {
			for _, t := range s.base.b.Tables(name) {
				s.gone(name, t)
			}
		}
	}
	return nil
}

// folder is what lies in one folder: no junk files, nothing but files and folders.
type folder struct{ files, dirs []string }

func (s *scanner) read(l loc) (folder, error) {
	ents, err := os.ReadDir(filepath.Join(s.root, l.path))
	if err != nil {
		return folder{}, err
	}
	var f folder
	for _, e := range ents {
		switch {
		case e.IsDir():
			f.dirs = append(f.dirs, e.Name())
		case isJunkFile(e.Name()):
		case e.Type().IsRegular():
			f.files = append(f.files, e.Name())
		default:
			s.refused = append(s.refused, outcome.Mark(outcome.Refused, "tables/"+l.child(e.Name()).path+" is neither a file nor a folder", ErrName, "put the file itself there"))
		}
	}
	return f, nil
}

func isJunkFile(name string) bool {
	_, junk := JunkFile(name)
	return junk
}

func (s *scanner) loose(l loc, schema string, f folder) {
	for _, name := range f.files {
		s.put(l.child(name), schema, Stem(name), name)
	}
}

func (s *scanner) put(l loc, schema, table, name string) {
	real := filepath.Join(s.root, l.path)
	fi, err := os.Lstat(real)
	if errors.Is(err, fs.ErrNotExist) {
		return // went away while we looked
	}
	if err != nil {
		s.refused = append(s.refused, fmt.Errorf("look at tables/%s: %w", l.path, err))
		return
	}
	s.add(put(l, schema, table, name, real, fi))
}

func (s *scanner) schema(name string) error {
	l := loc{}.child(name)
	f, err := s.read(l)
	if err != nil {
		return err
	}
	s.loose(l, name, f)
	tables := slices.DeleteFunc(f.dirs, func(t string) bool { _, junk := JunkDir(t); return junk && !s.base.hasTable(name, t) })
	s.tableNames[name] = tables
	renamed := map[string]string{} // name now -> base's table
	for _, bt := range s.base.b.Tables(name) {
		if slices.Contains(tables, bt) {
			continue
		}
		now, err := s.renamedTable(name, bt, tables, renamed)
		if err != nil {
			return err
		}
		if now == "" {
			s.gone(name, bt)
			continue
		}
		renamed[now] = bt
		s.add(Change{Kind: RenameTable, Schema: name, Table: now, FromTable: bt})
	}
	for _, t := range tables {
		bt := t
		if from, ok := renamed[t]; ok {
			bt = from
		}
		if err := s.table(l.child(t), bt); err != nil {
			return err
		}
	}
	return nil
}

// gone: a table's folder is not there.
func (s *scanner) gone(schema, table string) {
	if s.index.wroteTable(schema, table, s.base.b.Files(schema, table)) {
		s.add(Change{Kind: DropTable, Schema: schema, Table: table})
	}
}

// renamedTable finds the folder that the missing table bt is now: the one
// with its inode and time of birth (an inode number alone is used again).
func (s *scanner) renamedTable(schema, bt string, tables []string, renamed map[string]string) (string, error) {
	was, ok := s.index.Folders[diskName(schema+"/"+bt)]
	if !ok || was.Btime == 0 {
		return "", nil
	}
	for _, t := range tables {
		if _, used := renamed[t]; used || s.base.hasTable(schema, t) {
			continue
		}
		st, ok, err := statOf(filepath.Join(s.root, schema, t))
		if err != nil {
			return "", err
		}
		if ok && st.Ino == was.Ino && st.Btime == was.Btime {
			return t, nil
		}
	}
	return "", nil
}

// table compares the folder l with the base's table bt, which may not exist.
func (s *scanner) table(l loc, bt string) error {
	f, err := s.read(l)
	if err != nil {
		return err
	}
	var files []BaseFile
	if s.base.hasTable(l.schema(), bt) {
		files = s.base.b.Files(l.schema(), bt)
	}
	stats := map[string]Stat{}
	for _, name := range f.files {
		st, ok, err := statOf(filepath.Join(s.root, l.path, name))
		if err != nil {
			return err
		}
		if ok {
			stats[name] = st
		}
	}
	settled := s.baseFilesOf(l, bt, files, stats)
	for _, name := range f.files {
		if !settled[name] {
			s.put(l.child(name), l.schema(), l.table(), name)
		}
	}
	return s.deeper(l, l, f)
}

// baseFilesOf reports what became of the base's files of a table, and returns
// the names in the folder that are base files as they were.
func (s *scanner) baseFilesOf(l loc, bt string, files []BaseFile, stats map[string]Stat) map[string]bool {
	settled := map[string]bool{}
	fresh := map[uint64]string{} // inode -> a name that the base does not have
	for name, st := range stats {
		fresh[st.Ino] = name
	}
	for i := range files {
		if st, there := stats[files[i].Name]; there {
			delete(fresh, st.Ino)
		}
	}
	id := l.schema() + "/" + l.table()
	for i := range files {
		b := &files[i]
		was, known := s.index.Files[diskName(l.schema()+"/"+bt+"/"+b.Name)]
		if now, there := stats[b.Name]; there {
			s.shown[id] = append(s.shown[id], b.Name)
			settled[b.Name] = known && was == now
			continue
		}
		if !s.index.wrote(diskName(l.schema()+"/"+bt+"/"+b.Name), b) {
			s.shown[id] = append(s.shown[id], b.Name)
			continue
		}
		name, ok := fresh[was.Ino]
		if !known || !ok || !was.moved(stats[name]) {
			s.add(Change{Kind: Remove, Schema: l.schema(), Table: l.table(), Name: b.Name, Base: b})
			continue
		}
		delete(fresh, was.Ino)
		settled[name] = true
		s.add(Change{Kind: RenameFile, Schema: l.schema(), Table: l.table(), Name: name, From: b.Name, Base: b})
	}
	return settled
}

// deeper reports files in folders below a table's, for the commit to refuse by name.
func (s *scanner) deeper(table, l loc, f folder) error {
	for _, d := range f.dirs {
		if _, junk := JunkDir(d); junk {
			continue
		}
		c := l.child(d)
		sub, err := s.read(c)
		if err != nil {
			return err
		}
		for _, name := range sub.files {
			p := c.child(name)
			s.put(p, table.schema(), table.table(), strings.TrimPrefix(p.path, table.path+"/"))
		}
		if err := s.deeper(table, c, sub); err != nil {
			return err
		}
	}
	return nil
}
