// Package cache keeps on this machine what was read of objects elsewhere:
// blocks of objects that are read in places, whole objects for programs that
// need a file, and files that were made from them. One folder is shared by all
// processes of a user; nothing in it is worth anything but time, and any of it
// may be removed at any moment.
//
// # Invariants
//
//  1. What a reader gets is what was stored: every block has a checksum that
//     is compared when it is read back. One that does not fit is removed and
//     fetched again.
//  2. The sum of all sizes in the folder stays within the limit: room is made
//     before a byte is written, under the folder's lock.
//  3. A file has its name only when it is complete. What a killed process
//     leaves has a temporary name and no lock, and goes with the next clean-up.
//  4. A whole file that somebody uses is locked and is not removed.
//  5. A folder that cannot be written, or has no room, makes no read fail:
//     blocks are then read without being kept. Only who needs a file is refused.
//  6. Memory is bounded: blocks held plus blocks under way, whatever the number
//     of readers.
//
// # On disk
//
//	lock                             flock of all changes; holds the sum of all sizes
//	<space>/blocks/<xx>/<id>-<n>     a block of an object, see block.go
//	<space>/files/<id>.<suffix>      a whole file
//	<space>/files/<id>.sums          its checksums, see sums.go
//	<space>/tmp/                     what is being written
//
// The space is the caller's: one for each repository. An id is a hash of what
// tells an object and its state apart.
//
// # Locks
//
// disk.mu and the flock on "lock" first, then a whole file's flock; Cache.mu is
// held around memory alone, Reader.mu before it.
//
// It must not know repositories, versions or tables.
package cache
