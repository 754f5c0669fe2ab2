package engine_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/outcome"
)

// childEnv names the folder of a child: bench is what it works on, ops what it does.
const childEnv = "TARN_TEST_CHILD"

// child does the operations of a file and tells of each when it begins and how
// it ended, so that the parent knows what was acknowledged when it dies.
func child(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "ops"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := enginetest.NewRunner(enginetest.OpenBench(filepath.Join(dir, "bench"), nil))
	for i, op := range enginetest.MustOps(string(text)) {
		fmt.Println("begin", i)
		id, err := r.Do(op)
		end := outcome.Done
		if err != nil {
			fmt.Fprintln(os.Stderr, op, err)
			end = outcome.Of(err)
		}
		fmt.Printf("end %d %s %q\n", i, end, string(id))
	}
	if err := r.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
