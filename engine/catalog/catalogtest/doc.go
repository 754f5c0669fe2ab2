// Package catalogtest holds the promises of the ledger as tests that every
// driver of package kv runs, as kvtest does for the store below it:
//
//	world.go      a working catalog in Go, changed as DuckLake changes one: the model
//	steps.go      the changes
//	property.go   random work, faults, deaths and reopens against the model
//	faulty.go     a store that fails, or whose process dies, at one operation
//	exhaustive.go every operation of open, commit and repair, one after another
//	race.go       two processes that commit and take the store from each other
//	fill.go       a ledger of many files, in bounded memory
//	bench.go      its speed, beside the same rows in plain SQLite tables
//
// It is for tests only, and must not know any driver.
package catalogtest
