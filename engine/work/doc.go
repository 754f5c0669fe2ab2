// Package work is a working folder on disk: generations, staged files and
// removals, what a commit has taken (pending), committed versions that wait
// to be pushed (outbox), and the trash.
//
// A working folder lies in the state folder (StateRoot, RepoDir, WorkDir):
//
//	FORMAT    "1": the layout below
//	CURRENT   number of the current generation; one rename switches it
//	lock      flock of the one process that has the folder open
//	gen/N/    a generation
//	  catalog/   lake.sqlite, the desk
//	  data/      local data files
//	  meta/      dataset.json, options.toml, checks/
//	  staging/   what the user changed under tables/ (overlay_state.go)
//	  pending/   what a running commit has taken (manifest.go)
//	  outbox/    committed version folders that are not pushed yet
//	trash/    generations and staging folders that were reset, kept 7 days
//
// Invariants:
//
//  1. A file that a user dropped is in exactly one of staging/, pending/ and
//     trash/ until the commit that holds it is durable.
//  2. Every change of the tree a user sees is one rename, link or unlink, so
//     a crash leaves it before or after, never between.
//  3. Nothing is deleted but what the user removed, what a durable commit
//     holds, what was never published, and trash older than its term.
//
// Locks, in this order: Folder.mu, then Generation.mu (staging/ and pending/;
// an Overlay takes it for each operation), Folder.fileMu. Generation.mu is not
// held while the bytes of a staged file are copied or first synced.
//
// It must not know DuckLake, the catalog store or the repository.
package work
