package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain makes the test binary stand in for tarn: what a command starts as
// /proc/self/exe is then the program, and never the tests again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
	}
	os.Exit(m.Run())
}
