package main

import (
	"path/filepath"

	"github.com/tarnfs/tarn/mount"
)

// originOf is the entry at which the file system of e was mounted first:
// e itself, unless e is a bind mount. The daemon is known by its mount point.
func originOf(entries []mount.Entry, e mount.Entry) mount.Entry {
	if e.Root == "/" {
		return e
	}
	for _, o := range entries {
		if o.Dev == e.Dev && o.Root == "/" {
			return o
		}
	}
	return e
}

// relative is path below dir, "" for dir itself.
func relative(path, dir string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == "." {
		return ""
	}
	return rel
}
