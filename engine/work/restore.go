package work

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Restore brings dir/tables to base: files of base that are missing are
// written, those that show what they did in another version are replaced, and
// those that base does not have are removed. A file that looks otherwise than x
// remembers is somebody's newer work and stays as it is, for the next Scan to
// find. x is brought up to date, and everything synced; the caller writes x.
func (x *Index) Restore(dir string, base Base, open Opener) error {
	return x.bring(dir, base, open, true)
}

// Follow is Restore that also lets be what somebody has removed: for a base
// that has moved on beneath the work on it.
func (x *Index) Follow(dir string, base Base, open Opener) error {
	return x.bring(dir, base, open, false)
}

func (x *Index) bring(dir string, base Base, open Opener, all bool) error {
	r := &restoring{x: x, root: filepath.Join(dir, "tables"), open: open, all: all, want: map[diskName]bool{}, changed: map[string]bool{}}
	err := r.tables(base)
	if err == nil {
		err = r.name()
	}
	if err != nil {
		err = errors.Join(err, r.drop())
	}
	if err == nil {
		err = r.removeOthers()
	}
	if err == nil {
		err = r.sync()
	}
	if err != nil {
		return fmt.Errorf("restore tables of %s: %w", dir, err)
	}
	return nil
}

type restoring struct {
	x       *Index
	root    string // tables/
	open    Opener
	all     bool // also what was removed
	want    map[diskName]bool
	changed map[string]bool // folders with entries that are not durable
	made    []madeFile      // written under temporary names, not yet durable
}

// madeFile is a file of base under its temporary name, and its own.
type madeFile struct {
	tmp, at string
	key     diskName
	f       *BaseFile
}

// restoreBatch bounds how many files wait under temporary names.
const restoreBatch = 1024

func (r *restoring) tables(base Base) error {
	for _, s := range base.Schemas() {
		for _, t := range base.Tables(s) {
			if err := plainNames(s, t); err != nil {
				return err
			}
			files := base.Files(s, t)
			if err := r.table(s, t, files); err != nil {
				return err
			}
			for i := range files {
				r.want[diskName(s+"/"+t+"/"+files[i].Name)] = true
			}
		}
	}
	return nil
}

func (r *restoring) table(s, t string, files []BaseFile) error {
	at := filepath.Join(r.root, s, t)
	there, err := exists(at)
	if err != nil {
		return err
	}
	if !there {
		if !r.all && r.x.wroteTable(s, t, files) {
			return nil
		}
		if err := os.MkdirAll(at, dirPerm); err != nil {
			return err
		}
		for d := filepath.Dir(at); len(d) >= len(r.root); d = filepath.Dir(d) {
			r.changed[d] = true
		}
	}
	st, _, err := statOf(at)
	if err != nil {
		return err
	}
	r.x.Folders[diskName(s+"/"+t)] = Stat{Ino: st.Ino, Btime: st.Btime}
	for i := range files {
		if err := r.file(s+"/"+t+"/"+files[i].Name, &files[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *restoring) file(rel string, f *BaseFile) error {
	if err := plainNames(f.Name); err != nil {
		return err
	}
	at, key := filepath.Join(r.root, rel), diskName(rel)
	now, there, err := statOf(at)
	if err != nil {
		return err
	}
	was, known := r.x.Files[key]
	switch {
	case there && (!known || now != was || r.x.wrote(key, f)), !there && !r.all && r.x.wrote(key, f):
		return nil
	}
	// Its own name is the base's or another's, never half a file. The temporary
	// one is junk to a Scan.
	tmp := filepath.Join(filepath.Dir(at), tmpPrefix+f.Name)
	if err := ignoreMissing(os.Remove(tmp)); err != nil {
		return err
	}
	if err := writeBaseFile(tmp, *f, r.open); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	r.made = append(r.made, madeFile{tmp, at, key, f})
	if len(r.made) >= restoreBatch {
		return r.name()
	}
	return nil
}

// name gives the files that were made their own names, once their bytes are
// durable.
func (r *restoring) name() error {
	tmps := make([]string, len(r.made))
	for i := range r.made {
		tmps[i] = r.made[i].tmp
	}
	if err := syncAll(tmps); err != nil {
		return err
	}
	for len(r.made) > 0 {
		m := r.made[0]
		if err := os.Rename(m.tmp, m.at); err != nil {
			return err
		}
		r.made = r.made[1:]
		r.changed[filepath.Dir(m.at)] = true
		now, _, err := statOf(m.at)
		if err != nil {
			return err
		}
		r.x.Files[m.key], r.x.Shown[m.key] = now, m.f.shows()
	}
	return nil
}

// drop removes what has no name of its own yet.
func (r *restoring) drop() error {
	var errs []error
	for _, m := range r.made {
		errs = append(errs, ignoreMissing(os.Remove(m.tmp)))
	}
	r.made = nil
	return errors.Join(errs...)
}

// removeOthers removes files that x remembers and nobody wants, with the
// folders that become empty.
func (r *restoring) removeOthers() error {
	for name, was := range r.x.Files {
		if r.want[name] {
			continue
		}
		at := filepath.Join(r.root, string(name))
		if now, ok, err := statOf(at); err != nil || ok && now != was {
			if err != nil {
				return err
			}
			continue // changed since: not ours to remove
		}
		if err := ignoreMissing(os.Remove(at)); err != nil {
			return err
		}
		r.x.forget(name)
		d := filepath.Dir(at)
		for r.changed[d] = true; d != r.root; d = filepath.Dir(d) {
			if os.Remove(d) != nil {
				break
			}
			r.changed[filepath.Dir(d)] = true
		}
	}
	return nil
}

// sync makes the entries durable; a folder that is gone went with its parent's.
func (r *restoring) sync() error {
	for _, d := range slices.Sorted(maps.Keys(r.changed)) {
		if err := ignoreMissing(syncPath(d)); err != nil {
			return err
		}
	}
	return nil
}
