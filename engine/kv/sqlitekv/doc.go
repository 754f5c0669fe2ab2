// Package sqlitekv is the catalog store that needs no server and no set-up:
// one SQLite file with one table of pairs, in WAL mode, synced at each commit.
//
// Fencing is a row of the same file: OpenWriter raises it before anything
// else, and each Commit compares it inside its own BEGIN IMMEDIATE
// transaction. So the check and the write are one step at the shared file, and
// no copy that a process keeps can be wrong about who the writer is.
//
// The -wal and -shm files stay beside the file when the last handle closes
// (emptied). A reader of a resting store then needs to create nothing, which
// is what makes a read-only open free of writes.
//
// In one process, read through the Writer: SQLite shares its -shm mapping
// between the handles of a process, and a reader that mapped it read-only
// would stop a writer that opens while the view is held. Nor may the process
// open and close the file by other means while a handle is open: closing any
// descriptor drops a process's POSIX locks on it.
//
// It must not know what keys and values mean, except the three keys it keeps
// for itself: epoch, nonce and owner.
package sqlitekv
