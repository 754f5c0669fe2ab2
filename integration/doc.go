// Package integration holds the tests that need the built binary: real
// mounts, real clients, kill -9. The daemon always runs in a process of its
// own.
//
// It must not reach into the packages it tests, but for the consistency check
// that ends every test.
package integration
