// Package kvtest holds the promises of package kv as tests. Every driver runs
// the same suite: order and bounds of scans, pinned views, atomic commits,
// fencing within a process and between processes, kill -9, and reading that
// writes nothing.
//
// It must not know any driver.
package kvtest
