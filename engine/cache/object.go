package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// Object is one state of one object of a store. Objects are write-once: what
// is kept of one is never asked for again while it is there.
type Object struct {
	Source Source
	Space  string // folder of the cache: one for each repository
	Key    string // in Source
	// Size in bytes; negative: not known, which only Local can do with.
	Size int64
	// SHA256 of the content, hex, when it is known. It tells states apart and
	// is compared wherever the whole object passes by.
	SHA256 string
	// Version tells states apart where there is no SHA256: an ETag, a time.
	Version string
}

// id is what the files of the object are called.
func (o *Object) id() string {
	state := o.SHA256
	if state == "" {
		state = fmt.Sprintf("%d:%s", o.Size, o.Version)
	}
	return nameID("object", o.Key, state)
}

func nameID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:20])
}

// suffix is that of a whole file: some programs go by it.
func suffix(key string) string {
	ext := path.Ext(key)
	if len(ext) < 2 || len(ext) > 10 || ext == sumsSuffix || strings.Trim(ext[1:], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ".data"
	}
	return ext
}

// blocks is how many blocks the object has.
func (o *Object) blocks(size int64) int64 { return (o.Size + size - 1) / size }

// blockLen is the length of block n.
func (o *Object) blockLen(n, size int64) int64 { return min(size, o.Size-n*size) }

// blockKey names a block in memory.
type blockKey struct {
	space, id string
	n         int64
}
