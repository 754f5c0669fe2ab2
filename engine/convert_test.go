package engine_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestManyFilesAtOnce: text files are converted side by side, each for itself.
func TestManyFilesAtOnce(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	const files = 48
	var want strings.Builder
	for i := range files {
		drop(t, w, fmt.Sprintf("main/towns/f%02d.csv", i), fmt.Sprintf("id,name\n%d,town %d\n", i, i))
		fmt.Fprintf(&want, "%d,town %d\n", i, i)
	}
	if r := commit(t, w); r.ID == "" {
		t.Fatal("no version")
	}
	if got := townRows(t, w); got != want.String() {
		t.Errorf("rows:\n%s\nwant\n%s", got, want.String())
	}
}
