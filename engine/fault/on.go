//go:build faults

package fault

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// armed is read once.
var armed = sync.OnceValue(func() *counter { return parse(os.Getenv("TARN_FAULT")) })

// armedWorker is the step at which the workers are killed instead, from
// TARN_FAULT_WORKER.
var armedWorker = sync.OnceValue(func() *counter { return parse(os.Getenv("TARN_FAULT_WORKER")) })

var workers struct {
	sync.Mutex
	pids func() []int
}

// AnyDisk says whether a state folder may lie on any file system.
func AnyDisk() bool { return os.Getenv("TARN_FAULT_ANY_DISK") == "1" }

// Workers names the worker processes that TARN_FAULT_WORKER kills.
func Workers(pids func() []int) {
	workers.Lock()
	defer workers.Unlock()
	workers.pids = pids
}

// killWorkers ends every worker, as a crash in it would.
func killWorkers() {
	workers.Lock()
	defer workers.Unlock()
	if workers.pids == nil {
		return
	}
	for _, pid := range workers.pids() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// counter kills at the n-th passing of the step called name.
type counter struct {
	name string

	mu   sync.Mutex // guards left
	left int
}

// parse reads "name" or "name:n"; n counts from 1. A name may hold ": ", as
// those of a working folder do. A count that is no number names no step, so
// that a mistyped test sees nothing die and fails.
func parse(text string) *counter {
	name, n := text, 1
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasPrefix(text[i:], ": ") {
		var err error
		if n, err = strconv.Atoi(text[i+1:]); err != nil {
			return &counter{}
		}
		name = text[:i]
	}
	if name == "" || n < 1 {
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
// "name" or "name:n", the process kills itself (TARN_FAULT_WORKER: its
// workers) at the n-th passing: by SIGKILL, so that no deferred call, no flush
// and no signal handler runs.
func Point(name string) {
	record(name)
	if armedWorker().passed(name) {
		killWorkers()
	}
	if !armed().passed(name) {
		return
	}
	// The signal may take a moment; nothing may happen after the step meanwhile.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
