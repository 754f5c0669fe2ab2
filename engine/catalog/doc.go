// Package catalog describes DuckLake's 28 catalog tables once, as data, and
// keeps their rows in the catalog store (the ledger): codecs, visibility and
// the import that makes the store equal to a working catalog.
//
// It must not know SQLite, DuckDB, files or branches.
package catalog
