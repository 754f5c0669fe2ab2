package fs

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
)

// maxName is the longest name the kernel takes.
const maxName = 255

// inoBits keeps inode numbers below 2^53: readers in R and JavaScript parse
// them as doubles.
const inoBits = 53

// identity gives the inode of what the parts name, the same in every mount.
// Two nodes with one identity are one file to the kernel, with one set of
// pages, so names that a stranger chose must not be able to collide: the hash
// is a cryptographic one, and what st_ino cannot hold goes into the
// generation, which takes part in the comparison.
func identity(mode uint32, parts ...string) gofuse.StableAttr {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	sum := h.Sum(nil)
	ino := binary.LittleEndian.Uint64(sum) >> (64 - inoBits)
	if ino < firstIno {
		ino += firstIno
	}
	return gofuse.StableAttr{Mode: mode, Ino: ino, Gen: binary.LittleEndian.Uint64(sum[8:])}
}

// firstIno leaves the low numbers to the kernel (0 none, 1 root) and to
// fresh.
const firstIno = 1 << 32

// nextFresh counts the inodes of control files.
var nextFresh atomic.Uint64

// fresh gives an inode that was never used before.
func fresh() gofuse.StableAttr {
	n := nextFresh.Add(1)
	return gofuse.StableAttr{Mode: syscall.S_IFREG, Ino: 2 + n%(firstIno-2), Gen: n}
}

// safeName says that name can be one entry of a folder. Names come from
// repositories that strangers wrote; go-fuse panics on some and the kernel
// fails a whole listing on others.
func safeName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxName {
		return false
	}
	for i := 0; i < len(name); i++ {
		if name[i] == '/' || name[i] == 0 {
			return false
		}
	}
	return true
}
