package fs_test

import (
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// TestDoorOneInode: a file that is made in catalog/ while it is looked for
// through the door is one inode, whoever is first, and the next file of that
// name is another. Two inodes would be two sets of locks.
func TestDoorOneInode(t *testing.T) {
	_, r := newWorkTree(t)
	catalog, door := r.walk("main/catalog").NodeId, r.walk(".w/main").NodeId
	seen := map[uint64]bool{}
	for i := range 3000 {
		from, to := catalog, door
		if i%2 == 1 {
			from, to = door, catalog
		}
		var (
			found fuse.EntryOut
			errno syscall.Errno
			wg    sync.WaitGroup
		)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 100_000 {
				if found, errno = r.lookup(to, "lake.sqlite-shm"); errno == 0 && found.NodeId != 0 {
					return
				}
			}
		}()
		var made fuse.CreateOut
		in := fuse.CreateIn{InHeader: head(from), Flags: syscall.O_RDWR | syscall.O_CREAT, Mode: 0o644}
		if st := r.Create(never, &in, "lake.sqlite-shm", &made); st != 0 {
			t.Fatal(st)
		}
		wg.Wait()
		if found.NodeId != made.NodeId || found.Ino != made.Ino || found.Generation != made.Generation {
			t.Fatalf("round %d: made as inode %d, found as %d", i, made.NodeId, found.NodeId)
		}
		if seen[made.NodeId] {
			t.Fatalf("round %d: the new file is the inode of an earlier one", i)
		}
		seen[made.NodeId] = true
		r.Release(never, &fuse.ReleaseIn{InHeader: head(made.NodeId), Fh: made.Fh})
		h := head(to)
		if st := r.Unlink(never, &h, "lake.sqlite-shm"); st != 0 {
			t.Fatal(st)
		}
	}
}
