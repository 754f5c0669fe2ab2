// Package enginetest holds the engine to a model: random or written
// operations on working folders are done twice, on the engine and on plain
// maps, and what both show must be equal.
//
//	content.go   what a dropped file holds, made from a few numbers
//	op.go        operations as text: printable, replayable
//	model.go     World: the rules of docs/semantics.md on plain maps
//	generate.go  random operations that fit a World
//	bench.go     a repository, its working folders and their worker
//	runner.go    operations on the engine
//	compare.go   what the engine shows against what a World says
//	rows.go      rows of a Parquet file
//	dying.go     a worker that dies at a request
//	crash.go     operations that fail or die half way
//
// It is for tests only, and must not know DuckDB: the test binary brings the worker.
package enginetest
