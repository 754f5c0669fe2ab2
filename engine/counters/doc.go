// Package counters hands out the ids of a catalog: SnapshotId, CatalogId and
// FileId for the whole catalog, and ColumnId for each table.
//
// A counter holds the next id to be given. What holds at all times:
//
//  1. The persisted next is greater than every id in any row of its domain,
//     because a new next and the rows that use the ids before it are in one
//     atomic commit.
//  2. An absent counter is 0: nothing is reserved, the first id is 0.
//  3. A counter never falls.
//  4. Ids of a commit that did not happen are handed out again; ids of one
//     that did, never. So what is committed has no gaps and no duplicates.
//
// The three global counters are cached. A commit works on a private copy
// (Txn), which becomes the cache only once the commit is confirmed; when its
// outcome is unknown the cache is read again before the next use. Column
// counters are read inside the Txn that needs them.
//
// It must not know rows or tables, only the ids they need.
package counters
