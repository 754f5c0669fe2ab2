// Package kvopen opens a catalog store by its URL: it is the one list of
// drivers, so that package kv needs to know none of them.
//
//	/some/where/catalog.db              a file: sqlitekv
//	sqlite:/some/where/catalog.db       the same
//	slatedb:file:///dir                 SlateDB in a folder
//	slatedb:s3://bucket/prefix          SlateDB on S3 and what speaks like it
//	slatedb:az://container/prefix       SlateDB on Azure
//	slatedb:gs://bucket/prefix          SlateDB on Google Cloud Storage
//
// The slatedb ones need a binary that was built with the tag slatedb (make
// slatedb); another one answers with how to get one.
//
// It must not know what keys and values mean, except who is recorded as the
// holder.
package kvopen
