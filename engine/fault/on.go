//go:build faults

package fault

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// armed is read once: a worker process inherits the variable and counts for itself.
var armed = sync.OnceValue(func() *counter { return parse(os.Getenv("TARN_FAULT")) })

// counter kills at the n-th passing of the step called name.
type counter struct {
	name string

	mu   sync.Mutex // guards left
	left int
}

// parse reads "name" or "name:n"; n counts from 1. Text without a usable
// count names a step as a whole, so that a mistyped test kills nothing and fails.
func parse(text string) *counter {
	name, count, found := strings.Cut(text, ":")
	n, err := strconv.Atoi(count)
	if !found {
		n, err = 1, nil
	}
	if name == "" || err != nil || n < 1 {
		return &counter{}
	}
	return &counter{name: name, left: n}
}

// passed says whether this passing of name is the one to die at.
func (c *counter) passed(name string) bool {
	if c.name == "" || c.name != name {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	return c.left == 0
}

// Point marks a step by name, such as "push.before-ref". When TARN_FAULT is
// "name" or "name:n", the process kills itself at the n-th passing: by
// SIGKILL, so that no deferred call, no flush and no signal handler runs.
func Point(name string) {
	if !armed().passed(name) {
		return
	}
	// The signal may take a moment; nothing may happen after the step meanwhile.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
