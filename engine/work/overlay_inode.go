package work

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// inode numbers are hashes of what an entry stands for, never 0, 1 or ^0,
// which FUSE and its libraries keep for themselves.
func inode(kind, what string) uint64 {
	sum := sha256.Sum256([]byte(kind + "\x00" + what))
	n := binary.LittleEndian.Uint64(sum[:])
	if n <= 1 || n == ^uint64(0) {
		n = 2
	}
	return n
}

// baseInode: the same shown bytes in every version and under every name. A
// file that another version shows with other rows or columns is another inode:
// the kernel keeps an inode's pages and size, and a mount its node, for as
// long as somebody remembers it.
func baseInode(f *BaseFile) uint64 {
	return inode("base", strconv.FormatInt(f.DataFileID, 10)+":"+f.shows())
}

// stagedInode follows the backing file through renames. Its time of birth
// goes in because file systems give the number of a deleted file to the next
// one at once, and a mount would take that for the old file.
func stagedInode(st *unix.Statx_t) uint64 {
	b := binary.LittleEndian.AppendUint64(nil, st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(st.Btime.Sec))
		b = binary.LittleEndian.AppendUint32(b, st.Btime.Nsec)
	}
	return inode("staged", string(b))
}

// dirInodes gives folders the hash of their path: the one identity that a
// table keeps from mkdir over the commit to the base. A rename within the
// life of the mount takes the number along, and the old name gets another.
type dirInodes struct {
	moved map[string]uint64 // path -> number that is not its hash
	owner map[uint64]string // number in moved -> path
}

func newDirInodes() dirInodes {
	return dirInodes{moved: map[string]uint64{}, owner: map[uint64]string{}}
}

func (d *dirInodes) of(path string) uint64 {
	if n, ok := d.moved[path]; ok {
		return n
	}
	n := inode("dir", path)
	for salt := 1; ; salt++ {
		if owner, used := d.owner[n]; !used || owner == path {
			return n
		}
		n = inode("dir", path+"\x00"+strconv.Itoa(salt))
	}
}

// rename notes that from and what is below it are now at to. The paths below
// are those that were moved before; others hash to a new number, as they did
// when nobody had looked at them.
func (d *dirInodes) rename(from, to string, below []string) {
	numbers := map[string]uint64{to: d.of(from)}
	for _, b := range below {
		numbers[to+b[len(from):]] = d.of(b)
	}
	d.forget(to)
	for _, b := range append(below, from) {
		d.forget(b)
	}
	for p, n := range numbers {
		d.moved[p], d.owner[n] = n, p
	}
}

func (d *dirInodes) forget(path string) {
	if n, ok := d.moved[path]; ok {
		delete(d.moved, path)
		delete(d.owner, n)
	}
}
