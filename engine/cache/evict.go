package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// entry is what is kept or left of one thing.
type entry struct {
	path  string
	sums  string // checksums of a whole file, "" where there are none
	size  int64  // of both
	used  time.Time
	whole bool
}

// orphanAge is the age at which checksums without their file are rubbish.
const orphanAge = time.Hour

// scan lists what is kept and removes what dead processes have left. Called
// with the lock.
func (d *disk) scan() (list []entry, total int64, err error) {
	spaces, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, 0, err
	}
	for _, s := range spaces {
		if !s.IsDir() {
			continue
		}
		dir := filepath.Join(d.dir, s.Name())
		list = d.scanBlocks(list, filepath.Join(dir, "blocks"))
		list = d.scanFiles(list, filepath.Join(dir, "files"))
		total += d.scanTemp(filepath.Join(dir, "tmp"))
	}
	for _, e := range list {
		total += e.size
	}
	return list, total, nil
}

func (d *disk) scanBlocks(list []entry, dir string) []entry {
	parts, _ := os.ReadDir(dir)
	for _, p := range parts {
		blocks, _ := os.ReadDir(filepath.Join(dir, p.Name()))
		for _, b := range blocks {
			if st, err := b.Info(); err == nil {
				list = append(list, entry{path: filepath.Join(dir, p.Name(), b.Name()), size: st.Size(), used: st.ModTime()})
			}
		}
	}
	return list
}

func (d *disk) scanFiles(list []entry, dir string) []entry {
	files, _ := os.ReadDir(dir)
	found := map[string]os.FileInfo{}
	ids := map[string]bool{} // of files
	for _, f := range files {
		if st, err := f.Info(); err == nil {
			found[f.Name()] = st
			if ext := filepath.Ext(f.Name()); ext != sumsSuffix {
				ids[strings.TrimSuffix(f.Name(), ext)] = true
			}
		}
	}
	for name, st := range found {
		id := strings.TrimSuffix(name, filepath.Ext(name))
		if filepath.Ext(name) == sumsSuffix {
			if !ids[id] {
				e := entry{path: filepath.Join(dir, name), size: st.Size(), used: st.ModTime()}
				if time.Since(st.ModTime()) < orphanAge || os.Remove(e.path) != nil {
					list = append(list, e) // its file may be about to come
				}
			}
			continue
		}
		e := entry{path: filepath.Join(dir, name), size: st.Size(), used: st.ModTime(), whole: true}
		if sums, ok := found[id+sumsSuffix]; ok {
			e.sums = filepath.Join(dir, id+sumsSuffix)
			e.size += sums.Size()
		}
		list = append(list, e)
	}
	return list
}

// scanTemp counts what is being written. A file whose lock can be had belongs
// to nobody.
func (d *disk) scanTemp(dir string) (total int64) {
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if f.IsDir() { // of a reservation, see Make
			if _, err := os.Lstat(strings.TrimSuffix(path, madeSuffix)); errors.Is(err, fs.ErrNotExist) {
				os.RemoveAll(path)
			}
			continue
		}
		st, err := f.Info()
		if err != nil {
			continue
		}
		if removeUnlocked(path) {
			os.RemoveAll(path + madeSuffix)
			continue
		}
		total += st.Size()
	}
	return total
}

// removeUnlocked removes a file that nobody has locked.
func removeUnlocked(path string) bool {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return false
	}
	defer f.Close()
	return flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil && os.Remove(path) == nil
}

// evict removes what was not used for longest until size more bytes fit, and a
// tenth of the limit beyond, so that the next scan is some time off. free is
// what the disk has beside what must stay free. The sum of what is left is
// right also when there is not enough room.
func (d *disk) evict(size, free int64) (total int64, err error) {
	list, total, err := d.scan()
	if err != nil {
		return 0, err
	}
	slices.SortFunc(list, func(a, b entry) int { return a.used.Compare(b.used) })
	low := max(0, d.limit-d.limit/10)
	fits := func(limit int64) bool { return total+size <= limit && free >= size }
	for _, e := range list {
		if fits(low) {
			break
		}
		if d.drop(e) {
			total -= e.size
			free += e.size
		}
	}
	if fits(d.limit) {
		return total, nil
	}
	if free < size {
		return total, fmt.Errorf("%w: the disk of %s is full", ErrNoRoom, d.dir)
	}
	return total, fmt.Errorf("%w: %d of %d bytes of the cache are in use", ErrNoRoom, total, d.limit)
}

// drop removes one thing that nobody uses.
func (d *disk) drop(e entry) bool {
	if !e.whole {
		return os.Remove(e.path) == nil
	}
	if !removeUnlocked(e.path) {
		return false
	}
	if e.sums != "" {
		os.Remove(e.sums)
	}
	return true
}
