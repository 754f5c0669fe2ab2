// Package slatekv is the catalog store for when one machine is not enough:
// SlateDB, an LSM tree whose every byte is an object in S3, Azure, Google Cloud
// Storage or a folder. It is there with the build tag slatedb only, because it
// links the official Rust library; slatedb-c is our C interface round it, and
// make slatedb builds both.
//
// Fencing is SlateDB's: opening for writing claims the next epoch in the
// manifest and lays a fence where the older writer's next object would go, so
// that its next commit fails at the store, not in anybody's memory. Epoch,
// nonce and owner are written as keys too, as sqlitekv does, before OpenWriter
// returns; they say by whom one was fenced.
//
// A commit is durable when Commit returns. Concurrent ones are gathered and
// share a flush, and nothing is flushed unasked. After a
// commit whose outcome is unknown the handle refuses everything: only a new one
// can tell.
//
// A Reader opens the newest durable state for each View and stays there. It
// writes nothing, not even the checkpoint that would keep what it reads from
// being collected; a view that outlived it (collection starts after an hour)
// answers ErrChanged. A Writer's view shows its own handle: what another
// process wrote after fencing it is not seen there, and no Commit after that
// succeeds.
//
// It must not know what keys and values mean, except the three keys that it
// keeps for itself.
package slatekv
