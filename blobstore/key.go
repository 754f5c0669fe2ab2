package blobstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of keys, in bytes. They are those of Linux paths, so that every key
// can be a file: PATH_MAX without its final NUL, and NAME_MAX. Object storage
// may allow less (S3: 1024) and says so itself.
const (
	MaxKey     = 4095
	MaxSegment = 255
)

// reserved starts the top-level names that a folder store needs for itself:
// .tarn-lock and .tarn-tmp. No store takes them as keys, so that a repository
// can move to a folder.
const reserved = ".tarn-"

// ValidKey returns nil, or an ErrBadKey that says what is wrong: a key is a
// relative path of UTF-8 segments joined by single slashes, none of them
// empty, "." or "..", without NUL. Names that map to another path on some
// server are refused everywhere.
func ValidKey(key string) error {
	bad := func(why string) error {
		shown := key
		if len(shown) > 80 {
			shown = shown[:80] + "..."
		}
		return fmt.Errorf("%w: %q %s", ErrBadKey, shown, why)
	}
	switch {
	case key == "":
		return bad("is empty")
	case len(key) > MaxKey:
		return bad(fmt.Sprintf("has %d bytes, more than %d", len(key), MaxKey))
	case key[0] == '/':
		return bad("is absolute")
	case key[len(key)-1] == '/':
		return bad("ends in a slash")
	case strings.HasPrefix(key, reserved):
		return bad("starts with " + reserved + ", a reserved name")
	case strings.IndexByte(key, 0) >= 0:
		return bad("holds a NUL")
	case !utf8.ValidString(key):
		return bad("is not UTF-8")
	}
	for seg := range strings.SplitSeq(key, "/") {
		switch {
		case seg == "":
			return bad("has an empty segment")
		case seg == "." || seg == "..":
			return bad("has a segment " + seg)
		case len(seg) > MaxSegment:
			return bad(fmt.Sprintf("has a segment of %d bytes, more than %d", len(seg), MaxSegment))
		}
	}
	return nil
}
