//go:build faults

package fault

import (
	"os"
	"sync"
)

// recorder is the file that TARN_FAULT_RECORD names, nil for none.
var recorder = sync.OnceValue(func() *os.File {
	name := os.Getenv("TARN_FAULT_RECORD")
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err) // a test that records nothing would try nothing
	}
	return f
})

// record appends a name that was passed, so that a test can find them all.
func record(name string) {
	if f := recorder(); f != nil {
		if _, err := f.WriteString(name + "\n"); err != nil {
			panic(err)
		}
	}
}
