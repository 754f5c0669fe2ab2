// Package keys is every key of the catalog store: how it is encoded, parsed
// and ordered. The bytes are part of the format.
//
//	01..1C                     a row; its parts follow, as its Layout says
//	FE 01                      counter SnapshotId
//	FE 02                      counter CatalogId
//	FE 03                      counter FileId
//	FE 04 | table u64          counter ColumnId of one table
//	FF | ASCII suffix [| tail] system
//
// Integers are unsigned and big-endian, so bytes sort as numbers do. Text has
// its length before it (u16, big-endian), so text sorts by length and then by
// its bytes, and no text can run into what follows it.
//
// It must not know what a row means, which tables there are, or how a store
// keeps its pairs: the layouts of the rows come from package catalog.
package keys
