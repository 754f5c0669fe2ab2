package fs

import (
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
)

// nodeTable gives each file of a folder that is seen through two directories
// one node. The kernel lets a LOOKUP in one directory run beside a CREATE in
// the other, and go-fuse, which takes a CREATE's node for a new one in any
// case, would then have two inodes for one file: two sets of pages and of
// locks, and SQLite loses transactions. Here both get the same node, so there
// is nothing to choose from.
//
// A nil table serves a folder that is seen once: there the kernel keeps
// LOOKUP and CREATE apart, and the identity of the file is enough.
type nodeTable struct {
	mu    sync.Mutex // held while a file is made, found or removed, with its system calls
	nodes map[backing]knownNode
	last  uint64
}

// knownNode is a file that is there. Its inode has a generation of its own,
// for the next file may have its number and its time of birth.
type knownNode struct {
	node *realNode
	id   gofuse.StableAttr
}

// lock begins an operation; the result ends it.
func (t *nodeTable) lock() (unlock func()) {
	if t == nil {
		return func() {}
	}
	t.mu.Lock()
	return t.mu.Unlock
}

// node is the node of a file. The caller holds the lock.
func (t *nodeTable) node(who backing, make func() *realNode) (*realNode, gofuse.StableAttr) {
	if t == nil {
		return make(), who.id(syscall.S_IFREG)
	}
	if k, ok := t.nodes[who]; ok {
		return k.node, k.id
	}
	if t.nodes == nil {
		t.nodes = map[backing]knownNode{}
	}
	t.last++
	id := who.id(syscall.S_IFREG)
	id.Gen = t.last
	k := knownNode{make(), id}
	t.nodes[who] = k
	return k.node, k.id
}

// forget is told when a file was removed. The caller holds the lock.
func (t *nodeTable) forget(who backing) {
	if t != nil {
		delete(t.nodes, who)
	}
}
