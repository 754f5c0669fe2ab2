package work

import (
	"os"
	"path/filepath"
	"syscall"
)

// Mkdir makes a folder: of a schema, of a table, or deeper (kept, and no data
// unless the commit says so).
func (o *Overlay) Mkdir(path string, perm uint32) (Entry, error) {
	l, err := parseLoc(path)
	if err != nil {
		return Entry{}, err
	}
	if err := o.lock(); err != nil {
		return Entry{}, err
	}
	defer o.gen.mu.Unlock()
	n, err := o.find(l)
	switch {
	case err != nil:
		return Entry{}, err
	case n.kind != 0:
		return Entry{}, syscall.EEXIST
	}
	if l.depth() >= 3 {
		if err = o.clearPlace(l); err == nil {
			o.step("mkdir")
			err = os.Mkdir(o.tree.real(l), 0o700)
		}
	} else {
		err = o.ensureFiles(l)
	}
	if err == nil {
		err = os.Chmod(o.tree.files(l), os.FileMode(perm&0o777|0o700))
	}
	if err != nil {
		return Entry{}, o.failed(err)
	}
	if n, err = o.findIn(l); err != nil {
		return Entry{}, err
	}
	return o.entry(l, n), nil
}

// Rmdir removes an empty folder. For a table of the base version that is
// DROP TABLE at the next commit. A schema of the base version cannot be
// removed by files (EPERM).
func (o *Overlay) Rmdir(path string) error {
	l, err := parseLoc(path)
	if err != nil {
		return err
	}
	if l.depth() == 0 {
		return syscall.EBUSY
	}
	if err := o.lock(); err != nil {
		return err
	}
	defer o.gen.mu.Unlock()
	if err := o.checkDir(l); err != nil {
		return err
	}
	if err := o.removeDir(l); err != nil {
		return err
	}
	o.dirs.forget(l.path)
	return nil
}

// checkDir refuses what is no folder, is not empty, or is in a commit's hands.
func (o *Overlay) checkDir(l loc) error {
	n, err := o.mustFind(l)
	if err != nil {
		return err
	}
	if n.kind != KindDir {
		return syscall.ENOTDIR
	}
	empty, err := o.isEmpty(l)
	switch {
	case err != nil:
		return err
	case !empty:
		return syscall.ENOTEMPTY
	case o.isBusyBelow(l):
		return syscall.EBUSY
	case l.depth() == 1 && o.base.hasSchema(l.schema()):
		return syscall.EPERM
	}
	return nil
}

// removeDir removes the folder l, which checkDir has let pass.
func (o *Overlay) removeDir(l loc) error {
	var err error
	switch l.depth() {
	case 1:
		o.step("remove schema")
		err = o.tree.trash(o.tree.schemaDir(l.schema()))
		delete(o.schemas, l.schema())
	case 2:
		err = o.removeTable(l.schema(), l.table())
	default:
		if err = o.clearNative(l); err == nil {
			o.step("rmdir")
			err = os.Remove(o.tree.real(l))
		}
	}
	if err != nil {
		return o.failed(err)
	}
	return nil
}

// removeTable removes a table's empty folder. For a table of the base the
// folder itself becomes the mark: removals and mark in two steps would, after
// a crash, show files again that were removed.
func (o *Overlay) removeTable(s, t string) error {
	dir := o.tree.tableDir(s, t)
	there, err := exists(dir)
	if err != nil {
		return err
	}
	bt := o.baseTable(s, t)
	ss := o.schema(s)
	if bt == "" {
		ss.removeTable(t)
		o.step("remove table")
		return o.tree.trash(dir)
	}
	mark := o.tree.dropped(s, bt)
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return err
	}
	o.step("drop table")
	if there {
		err = os.Rename(dir, mark)
	} else {
		err = os.Mkdir(mark, 0o700)
	}
	if err != nil {
		return err
	}
	ss.removeTable(t)
	ss.dropped[bt] = true
	return nil
}

// renameDir moves a folder within its level; across levels, and for a table
// of the base across schemas, it is EXDEV and the caller copies.
func (o *Overlay) renameDir(src, dst loc, to node) error {
	if to.kind != 0 {
		if err := o.checkDir(dst); err != nil {
			return err
		}
	}
	if o.isBusyBelow(src) || o.isBusyBelow(dst) {
		return syscall.EBUSY
	}
	level := func(l loc) int { return min(l.depth(), 3) }
	switch {
	case level(src) != level(dst):
		return syscall.EXDEV
	case src.depth() == 1 && o.base.hasSchema(src.schema()):
		return syscall.EPERM
	case src.depth() == 2 && src.schema() != dst.schema() && o.baseTable(src.schema(), src.table()) != "":
		return syscall.EXDEV
	}
	below := o.dirsBelow(src)
	if to.kind != 0 {
		if err := o.removeDir(dst); err != nil {
			return err
		}
	}
	var err error
	switch level(src) {
	case 1:
		err = o.renameSchema(src.schema(), dst.schema())
	case 2:
		err = o.renameTable(src, dst)
	default:
		if err = o.clearPlace(dst); err == nil {
			err = o.clearNative(src)
		}
		if err == nil {
			o.step("rename folder")
			err = os.Rename(o.tree.real(src), o.tree.real(dst))
		}
	}
	if err != nil {
		return o.failed(err)
	}
	o.writers.renamed(src.path, dst.path)
	o.dirs.rename(src.path, dst.path, below)
	return nil
}

// renameSchema moves a schema that only the staging folder has.
func (o *Overlay) renameSchema(src, dst string) error {
	if err := o.tree.trash(o.tree.schemaDir(dst)); err != nil { // nothing shows there
		return err
	}
	o.step("rename schema")
	if err := os.Rename(o.tree.schemaDir(src), o.tree.schemaDir(dst)); err != nil {
		return err
	}
	o.schemas[dst] = o.schemas[src]
	delete(o.schemas, src)
	return nil
}

// renameTable: the base table's name goes into the folder, then the folder
// moves; before the move the name says what holds anyway.
func (o *Overlay) renameTable(src, dst loc) error {
	from, to := o.tree.tableDir(src.schema(), src.table()), o.tree.tableDir(dst.schema(), dst.table())
	bt := o.baseTable(src.schema(), src.table())
	if err := o.tree.trash(to); err != nil { // nothing shows there
		return err
	}
	if err := os.MkdirAll(from, 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	st := o.table(src.schema(), src.table())
	if bt != "" && st.from == "" {
		o.step("note table name")
		if err := o.writeFrom(src, bt); err != nil {
			return err
		}
	}
	o.step("rename table")
	if err := os.Rename(from, to); err != nil {
		return err
	}
	o.schema(src.schema()).removeTable(src.table())
	ss := o.schema(dst.schema())
	ss.removeTable(dst.table())
	ss.tables[dst.table()] = st
	if bt == dst.table() { // home again
		st.from = ""
		o.step("forget table name")
		return os.Remove(o.tree.from(dst.schema(), dst.table()))
	}
	if bt != "" {
		ss.setFrom(dst.table(), bt)
	}
	return nil
}

func (o *Overlay) writeFrom(l loc, base string) error {
	tmp, err := o.tree.tempName()
	if err != nil {
		return err
	}
	if err := os.WriteFile(tmp, []byte(base), 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, o.tree.from(l.schema(), l.table())); err != nil {
		return err
	}
	o.schema(l.schema()).setFrom(l.table(), base)
	return nil
}

// dirsBelow lists the folders below l, for their inode numbers.
func (o *Overlay) dirsBelow(l loc) []string {
	var out []string
	names, err := readNames(o.tree.files(l))
	if err != nil {
		return nil
	}
	for _, name := range o.names(l, names) {
		c := l.child(name)
		if n, err := o.findIn(c); err == nil && n.kind == KindDir {
			out = append(out, c.path)
			out = append(out, o.dirsBelow(c)...)
		}
	}
	return out
}
