// Package engine holds the verbs: open, checkout, commit, push, reset, and
// what a mount or a command needs to show of a repository.
//
// It must not know FUSE or command lines.
package engine
