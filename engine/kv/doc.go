// Package kv is the sorted key-value store the catalog engine needs, as small
// as it can be: read one key, scan a range at one pinned moment, and one
// atomic, durable, fenced Commit.
//
// What every store promises:
//
//  1. Commit is all or nothing, and durable when it returns nil.
//  2. Once OpenWriter has returned anywhere, no Commit of an older handle
//     succeeds: the check is made where the bytes are shared, at the moment of
//     the commit, never on a copy that this process keeps.
//  3. ErrFenced and ErrConflict are different. A fenced handle is dead and
//     nothing it tries again can succeed; after a conflict the caller reads
//     again and retries. After either, nothing was written.
//  4. A View sees exactly the commits that had returned when it was taken, all
//     of each, for as long as it is open.
//  5. Opening for reading writes nothing, and fences nobody.
//
// Absence is not an error: Get gives nil for a key that is not there, and an
// empty value is never nil. Damage is never taken for absence.
//
// It must not know what keys and values mean. sqlitekv is the store that needs
// no server; kvtest holds the promises as tests.
package kv
