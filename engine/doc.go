// Package engine holds the verbs: open, checkout, commit, push, reset, and
// what a mount or a command needs to show of a repository.
//
// Words: the desk is lake.sqlite and the staged files, what is being edited;
// the ledger is the catalog store, what is committed; the outbox holds
// committed versions that are not pushed; the branch's ref is what is
// published. Everything else is a write-once file or a cache.
//
// Invariants, cited by number:
//
//  1. One commit point. A version is committed when the ledger's one Commit
//     has returned, and not before; nothing after it needs disk space.
//  2. One way in. Everything enters through lake.sqlite; nothing is written
//     back into a live one but an ordinary DuckLake snapshot for staged files.
//  3. A refusal changes nothing: lake.sqlite is rolled back, every staged file
//     is where it was, byte for byte.
//  4. The ref last. What a ref names is in the store, whole, before the ref
//     moves, and it moves only on condition.
//  5. Local bytes stay until the ref has moved.
//  6. What is published or committed is answered from its frozen catalog and
//     its files, never from the desk.
//  7. Projection only ever builds a new lake.sqlite; generations are switched
//     by one rename.
//
// Where to look: open.go, refs.go and tree.go show what is published;
// workspace.go is a working folder, checkout.go how it begins and is mended;
// commit.go, source.go, convert.go, candidate.go and changes.go make a version;
// push.go publishes it; pull.go and merge.go redo it on another version, both by
// rebuild.go; clone.go copies repositories; reset.go drops; plain.go is the same
// without a mount.
// The packages below: work (files and generations), lake (DuckLake's two file
// forms, the worker), catalog on counters, mvcc, keys and kv (the ledger), repo
// (the repository format), parquet, outcome, fault.
//
// It must not know FUSE or command lines.
package engine
