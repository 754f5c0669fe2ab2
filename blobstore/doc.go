// Package blobstore is objects by URL: get, range, put if absent, put if
// matching, list, delete. Open turns a URL into a Store; a Store wrapped in
// another adds a behaviour (logging, faults, read-only).
//
// # What a store must promise
//
// Everything above relies on these and on nothing else. Package blobtest holds
// a store to them, and Probe asks a live one before it is first written.
//
//  1. Read after write. Once a write has returned nil, every later Get, Head
//     and GetRange, by any process, sees it or a later state.
//  2. List after write. The same holds for List.
//  3. Whole objects only. A reader sees all bytes of one write, or no object.
//     A writer that is killed, or whose body fails, leaves nothing visible.
//  4. Exclusive create. Of any number of PutIfAbsent of one key with different
//     bodies, from any number of processes, exactly one succeeds, and the
//     object holds that one's bytes. The same body again is success.
//  5. Compare and swap. PutIfMatch replaces exactly the state whose Version
//     was named; of several swaps from one Version at most one succeeds. A
//     missing object matches no version but the empty one.
//  6. Durable. A write that returned nil, and an object that a PutIfAbsent
//     found already there, survive a crash of this machine.
//
// What a store need not do: report a definite outcome. Any error of a
// conditional write, ErrConflict included, may stand for a write that was
// applied and whose answer was lost. PutIfAbsentConfirmed and SwapConfirmed
// read back and settle it.
//
// # Keys
//
// Keys are what ValidKey accepts. They are compared and sorted byte by byte. A
// key must not be a folder of another ("a" and "a/b"): a folder store cannot
// hold both and answers ErrExists.
//
// # Locks
//
// Local: its in-process semaphore first, then the flock on .tarn-lock; nothing
// else is acquired under them. Mem, Faulty and Recorder each have one mutex,
// held around memory only, never around a call of another store.
//
// It must not know tables, versions or refs.
package blobstore
