package work

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Rename moves a file or folder. flags is 0 or RENAME_NOREPLACE; others are
// EINVAL. A file of the base version can have another name in its table's
// folder, which leaves its rows alone; elsewhere it must be copied: EXDEV.
func (o *Overlay) Rename(from, to string, flags uint) error {
	src, err := parseLoc(from)
	if err != nil {
		return err
	}
	dst, err := parseLoc(to)
	if err != nil {
		return err
	}
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return syscall.EINVAL
	}
	if src.depth() == 0 || dst.depth() == 0 {
		return syscall.EBUSY
	}
	if err := o.lock(); err != nil {
		return err
	}
	defer o.gen.mu.Unlock()
	// In the order in which a kernel finds fault: both folders, then the names.
	a, err := o.find(src)
	if err != nil {
		return err
	}
	b, err := o.find(dst)
	switch {
	case err != nil:
		return err
	case a.kind == 0:
		return syscall.ENOENT
	case b.kind != 0 && flags&unix.RENAME_NOREPLACE != 0:
		return syscall.EEXIST
	case src.path == dst.path:
		return nil
	case dst.below(src):
		return syscall.EINVAL // into itself
	case src.below(dst):
		return syscall.ENOTEMPTY // the source is in it
	case a.kind == KindDir && b.kind != 0 && b.kind != KindDir:
		return syscall.ENOTDIR
	case a.kind == KindDir:
		return o.renameDir(src, dst, b)
	case b.kind == KindDir:
		return syscall.EISDIR
	case a.kind == KindTaken || b.kind == KindTaken || o.isBusy(src) || o.isBusy(dst):
		return syscall.EBUSY
	case a.kind == KindBase:
		err = o.renameBase(src, dst, a)
	default:
		err = o.renameStaged(src, dst)
	}
	if err != nil {
		return err
	}
	o.writers.renamed(src.path, dst.path)
	return nil
}

// renameStaged: marks first, each of which changes nothing as long as the
// staged files lie where they are; then one rename.
func (o *Overlay) renameStaged(src, dst loc) error {
	err := o.clearNative(src)
	if err == nil {
		err = o.clearRecord(dst)
	}
	if err == nil {
		err = o.ensureFiles(dst.parent())
	}
	if err == nil {
		o.step("rename")
		err = os.Rename(o.tree.real(src), o.tree.real(dst))
	}
	if err != nil {
		return o.failed(err)
	}
	o.forgetRecord(dst)
	return nil
}

// renameBase moves the record of a base file, or makes it: one rename either
// way, which also replaces what lies at dst.
func (o *Overlay) renameBase(src, dst loc, n node) error {
	if !dst.inTable() || dst.schema() != src.schema() || dst.table() != src.table() {
		return syscall.EXDEV
	}
	var err error
	if n.record {
		err = o.clearNative(src)
	}
	if err == nil {
		err = o.clearRecord(dst)
	}
	if err == nil {
		err = o.ensureFiles(dst.parent())
	}
	o.step("rename base file")
	if err == nil && n.record {
		err = os.Rename(o.tree.real(src), o.tree.real(dst))
	} else if err == nil {
		err = o.tree.replaceLink(o.tree.real(dst), keyOf(n.base).link())
	}
	if err != nil {
		return o.failed(err)
	}
	st := o.table(src.schema(), src.table())
	st.dropRecord(src.name())
	st.setRecord(dst.name(), keyOf(n.base))
	if dst.name() == n.base.Name {
		return o.recordHome(dst, n.base)
	}
	return nil
}

// recordHome drops a record that shows a file under its own name: first the
// mark that the record overrules, then the record.
func (o *Overlay) recordHome(l loc, f *BaseFile) error {
	st := o.table(l.schema(), l.table())
	if _, ok := st.removed[f.Name]; ok {
		o.step("record home: mark")
		if err := ignoreMissing(os.Remove(o.tree.removed(l.schema(), l.table(), f.Name))); err != nil {
			return o.failed(err)
		}
		delete(st.removed, f.Name)
	}
	o.step("record home: record")
	if err := os.Remove(o.tree.real(l)); err != nil {
		return o.failed(err)
	}
	st.dropRecord(f.Name)
	return nil
}
