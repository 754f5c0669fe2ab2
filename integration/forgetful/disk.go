package forgetful

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// disk is a file system in memory that knows, of each file and folder, how it
// is and how a power cut would leave it.
type disk struct {
	mu    sync.Mutex // guards everything below, and every inode
	root  *inode
	last  uint64  // inode number given out last
	moves []*move // renames between two folders that are not durable yet
}

// inode is a file, folder or symbolic link.
type inode struct {
	ino   uint64
	nlink uint32 // names it has now; of a folder: 2
	now   state
	safe  state // what the last fsync made durable
}

// state is all that can be asked of an inode.
type state struct {
	mode         uint32 // type and permissions
	uid, gid     uint32
	atime, mtime time.Time
	ctime        time.Time
	data         []byte            // of a file
	target       string            // of a link
	names        map[string]*inode // of a folder
}

func (s *state) isDir() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }

// copied shares nothing that an operation changes.
func (s *state) copied() state {
	c := *s
	c.data = append([]byte(nil), s.data...)
	c.names = maps.Clone(s.names)
	return c
}

// move is a rename from one folder to another. It is one step, as journalling
// file systems have it, and durable with the folder that got the name: until
// then the old name stays, whatever is synced. An exchange is durable with
// either of its folders.
type move struct {
	in       *inode
	from, to *inode
	was, is  string
	back     *inode // of an exchange: what has the old name now
}

func newDisk() *disk {
	d := &disk{}
	d.root = d.newInode(unix.S_IFDIR|0o755, 0, 0)
	return d
}

// newInode makes an inode without a name. Its content is durable as long as it
// is empty; what is written into it is not.
func (d *disk) newInode(mode, uid, gid uint32) *inode {
	d.last++
	t := time.Now()
	s := state{mode: mode, uid: uid, gid: gid, atime: t, mtime: t, ctime: t}
	in := &inode{ino: d.last + 1, now: s} // 1 is the root of a FUSE mount
	if s.isDir() {
		in.nlink = 2
		in.now.names = map[string]*inode{}
	}
	in.safe = in.now.copied()
	return in
}

// sync is fsync. Of a file it makes the bytes and attributes durable, not the
// name; of a folder the names, not what is in the files.
func (d *disk) sync(in *inode) {
	old := in.safe.names
	in.safe = in.now.copied()
	if !in.now.isDir() {
		return
	}
	var left []*move
	for _, m := range d.moves {
		switch {
		case m.back != nil && (m.to == in || m.from == in):
			m.to.safe.names[m.is], m.from.safe.names[m.was] = m.in, m.back
		case m.to == in: // the old name goes in the same step
			if m.from.safe.names[m.was] == m.in {
				delete(m.from.safe.names, m.was)
			}
		case m.from != in:
			left = append(left, m)
		case in.now.names[m.was] != nil: // the old name is taken again: the move happened before
			m.to.safe.names[m.is] = m.in
		default:
			if old[m.was] == m.in {
				in.safe.names[m.was] = m.in
			}
			left = append(left, m)
		}
	}
	d.moves = left
}

// syncAll is sync(2).
func (d *disk) syncAll() {
	seen := map[*inode]bool{}
	var walk func(in *inode)
	walk = func(in *inode) {
		if seen[in] {
			return
		}
		seen[in] = true
		in.safe = in.now.copied()
		for _, child := range in.now.names {
			walk(child)
		}
	}
	walk(d.root)
	d.moves = nil
}

func touched(dir *inode) {
	dir.now.mtime = time.Now()
	dir.now.ctime = dir.now.mtime
}

// link gives in a name, which must be free.
func (d *disk) link(dir *inode, name string, in *inode) {
	dir.now.names[name] = in
	if !in.now.isDir() {
		in.nlink++
	}
	touched(dir)
}

func (d *disk) unlink(dir *inode, name string) {
	in := dir.now.names[name]
	delete(dir.now.names, name)
	d.settle(dir, name)
	if !in.now.isDir() {
		in.nlink--
	}
	touched(dir)
}

// settle forgets that what had this name had been moved there.
func (d *disk) settle(dir *inode, name string) {
	var left []*move
	for _, m := range d.moves {
		if (m.to != dir || m.is != name) && (m.back == nil || m.from != dir || m.was != name) {
			left = append(left, m)
		}
	}
	d.moves = left
}

// rename moves a name; what has the new one already goes.
func (d *disk) rename(from *inode, was string, to *inode, is string) {
	in := from.now.names[was]
	if from == to && was == is || to.now.names[is] == in {
		return // rename(2) of two names of one file does nothing
	}
	if to.now.names[is] != nil {
		d.unlink(to, is)
	}
	delete(from.now.names, was)
	to.now.names[is] = in
	d.moved(in, from, was, to, is)
	touched(from)
	touched(to)
}

// exchange swaps two names.
func (d *disk) exchange(a *inode, x string, b *inode, y string) {
	p, q := a.now.names[x], b.now.names[y]
	a.now.names[x], b.now.names[y] = q, p
	d.settle(a, x)
	d.settle(b, y)
	if a != b {
		d.moves = append(d.moves, &move{in: p, from: a, was: x, to: b, is: y, back: q})
	}
	touched(a)
	touched(b)
}

// moved notes a rename between folders. One that was moved twice was moved
// from the first to the last.
func (d *disk) moved(in, from *inode, was string, to *inode, is string) {
	for i, m := range d.moves {
		if m.in == in && m.to == from && m.is == was && m.back == nil {
			m.to, m.is = to, is
			if m.from == to {
				d.moves = append(d.moves[:i], d.moves[i+1:]...)
			}
			return
		}
	}
	if from != to {
		d.moves = append(d.moves, &move{in: in, from: from, was: was, to: to, is: is})
	}
}
