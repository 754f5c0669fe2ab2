// Package mount is the life of Tarn's mounts: it checks a mount point,
// removes what a dead daemon left there, mounts the two trees (the repository
// read-only, the working folders writable), waits for their end and ends
// them. Everything it refuses is one line what and one line what to do.
//
// It knows go-fuse and the kernel's mount table. It must not know our engine,
// the nodes that it mounts, or command lines.
package mount
