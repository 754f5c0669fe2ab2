//go:build !faults

package fault

// Point marks a step by name, such as "push.before-ref". This build does
// nothing there.
func Point(name string) {}

// Env is what a child process must have in its environment to obey too: here
// nothing.
func Env() []string { return nil }

// Workers names the worker processes that a test may kill. This build does
// nothing there.
func Workers(pids func() []int) {}
