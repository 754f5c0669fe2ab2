package blobstore

import (
	"os"
	"testing"
)

// LackAll makes l take every fallback, as on an old kernel and a plain file
// system.
func LackAll(l *Local) { l.caps = caps{noOpenat2: true, noTmpfile: true, noRename2: true} }

// LackTmpfile makes l do without O_TMPFILE only: RENAME_NOREPLACE is used.
func LackTmpfile(l *Local) { l.caps.noTmpfile = true }

// Fallbacks reports whether l resolves paths without openat2.
func Fallbacks(l *Local) bool { return l.caps.noOpenat2 }

// Classify is classify.
func Classify(err error) error { return classify(err) }

// OnSync calls see before each fsync of l.
func OnSync(l *Local, see func(*os.File)) { l.onSync = see }

// RenewAtOnce makes creates give every object they find the present time.
func RenewAtOnce(t testing.TB) {
	was := renewAge
	renewAge = 0
	t.Cleanup(func() { renewAge = was })
}

// Held is how many parts readers of s hold in memory.
func Held(s Store) int {
	p, _ := As[*parallelStore](s)
	return len(p.held)
}
