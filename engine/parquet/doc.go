// Package parquet reads what a Parquet file says about itself: its columns as
// DuckLake types, its row count, and per leaf column the statistics that
// DuckLake keeps. It also pads a finished file to an announced size.
//
// It decodes footers only and is safe on hostile input: nothing it allocates
// is larger than a small multiple of the bytes it has read. It must not know
// catalogs, tables or working folders, and it never decodes a value page.
package parquet
