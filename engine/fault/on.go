//go:build faults

package fault

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// The variables that a test sets.
const (
	envFault = "TARN_FAULT"
	envWhen  = "TARN_FAULT_WHEN"
)

// armed is read once: a worker process inherits the variables and counts for itself.
var armed = sync.OnceValue(func() *counter {
	c := parse(os.Getenv(envFault))
	c.when = os.Getenv(envWhen)
	return c
})

// armedWorker is the step at which the workers are killed instead, from
// TARN_FAULT_WORKER.
var armedWorker = sync.OnceValue(func() *counter { return parse(os.Getenv("TARN_FAULT_WORKER")) })

var workers struct {
	sync.Mutex
	pids func() []int
}

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
	when string // file that must exist for a passing to count; "": every one counts

	mu   sync.Mutex // guards left
	left int
}

// parse reads "name" or "name:n"; n counts from 1. Text that is neither names
// no step, so that a mistyped test sees nothing die and fails.
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
	if c.when != "" {
		if _, err := os.Lstat(c.when); err != nil {
			return false
		}
	}
	c.left--
	// Who removes the file dies: once, however many processes pass.
	return c.left == 0 && (c.when == "" || os.Remove(c.when) == nil)
}

// Point marks a step by name, such as "push.before-ref". When TARN_FAULT is
// "name" or "name:n", the process kills itself (TARN_FAULT_WORKER: its workers) at the n-th passing: by
// SIGKILL, so that no deferred call, no flush and no signal handler runs.
// When TARN_FAULT_WHEN names a file, a passing counts only while it exists, and
// the death removes it: so a test arms a step of a worker, of which there are
// many, just before the commit it means.
func Point(name string) {
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

// Env is what a child process must have in its environment to obey too.
func Env() []string {
	var env []string
	for _, name := range []string{envFault, envWhen} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
