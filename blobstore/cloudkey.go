package blobstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// errAnotherWay: the provider has no cheap way to do this to this object.
var errAnotherWay = errors.New("not in this way")

// storedKey is a key as gocloud.dev/blob stores it: special characters, and
// the slash of "../", are written __0xHH__. It is needed where an SDK is asked
// without gocloud; the conformance suite holds it to what gocloud writes. A
// key that itself holds what looks like an escape is errAnotherWay.
func storedKey(key string, special func(r rune) bool) (string, error) {
	if strings.Contains(key, "__0x") {
		return "", errAnotherWay
	}
	var b strings.Builder
	runes := []rune(key)
	for i, r := range runes {
		if special(r) || i > 1 && r == '/' && runes[i-1] == '.' && runes[i-2] == '.' {
			fmt.Fprintf(&b, "__%#x__", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String(), nil
}

// What each provider cannot hold in a key.
func s3Special(r rune) bool    { return r < ' ' }
func gsSpecial(r rune) bool    { return r == '\n' || r == '\r' }
func azureSpecial(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`"#%?\`, r) }

// pathEscape escapes each segment of a path, and the plus, which some servers
// read as a space.
func pathEscape(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(url.PathEscape(s), "+", "%2B")
	}
	return strings.Join(segments, "/")
}
