package forgetful

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// survivors is the disk as it would be found, as a disk of its own.
func (d *disk) survivors(lose Lose) *disk {
	kept := newDisk()
	done := map[*inode]*inode{}
	var keep func(in *inode) *inode
	keep = func(in *inode) *inode {
		if k := done[in]; k != nil {
			return k
		}
		k := kept.newInode(in.safe.mode, in.safe.uid, in.safe.gid)
		done[in] = k
		k.now = in.safe.copied()
		names := in.safe.names
		if lose == LoseBytes {
			names = in.now.names
		}
		if in.safe.isDir() {
			k.now.names = map[string]*inode{}
		}
		for name, child := range names {
			k.now.names[name] = keep(child)
		}
		return k
	}
	kept.root = keep(d.root)
	return kept
}

// load makes a disk of a folder; everything in it is durable.
func load(dir string) (*disk, error) {
	d := newDisk()
	known := map[uint64]*inode{} // hard links
	var read func(path string, in *inode) error
	read = func(path string, in *inode) error {
		list, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range list {
			at := filepath.Join(path, e.Name())
			var st unix.Stat_t
			if err := unix.Lstat(at, &st); err != nil {
				return err
			}
			child := known[st.Ino]
			if child == nil {
				child = d.newInode(st.Mode, st.Uid, st.Gid)
				child.now.mtime = time.Unix(st.Mtim.Unix())
				known[st.Ino] = child
				switch st.Mode & unix.S_IFMT {
				case unix.S_IFDIR:
					err = read(at, child)
				case unix.S_IFLNK:
					child.now.target, err = os.Readlink(at)
				case unix.S_IFREG:
					child.now.data, err = os.ReadFile(at)
				}
				if err != nil {
					return err
				}
			}
			d.link(in, e.Name(), child)
		}
		return nil
	}
	if err := read(dir, d.root); err != nil {
		return nil, err
	}
	d.syncAll()
	return d, nil
}

// save writes the disk as it is now into the folder dir, in place of what is
// there.
func (d *disk) save(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	first := map[*inode]string{} // hard links
	var write func(path string, in *inode) error
	write = func(path string, in *inode) error {
		for name, child := range in.now.names {
			at := filepath.Join(path, name)
			if was := first[child]; was != "" && !child.now.isDir() {
				if err := os.Link(was, at); err != nil {
					return err
				}
				continue
			}
			first[child] = at
			if err := child.write(at, write); err != nil {
				return err
			}
		}
		return nil
	}
	return write(dir, d.root)
}

func (in *inode) write(at string, below func(string, *inode) error) error {
	var err error
	switch in.now.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err = os.Mkdir(at, 0o700); err == nil {
			err = below(at, in)
		}
	case unix.S_IFLNK:
		return os.Symlink(in.now.target, at)
	default:
		err = os.WriteFile(at, in.now.data, 0o600)
	}
	if err == nil {
		err = syscall.Chmod(at, in.now.mode&0o7777)
	}
	if err == nil {
		err = os.Chtimes(at, in.now.atime, in.now.mtime)
	}
	return err
}
