//go:build !faults

package fault

// Point marks a step by name, such as "push.before-ref". This build does
// nothing there.
func Point(name string) {}

// AnyDisk says whether a state folder may lie on any file system. Never in this
// build.
func AnyDisk() bool { return false }

// Workers names the worker processes that a test may kill. This build does
// nothing there.
func Workers(pids func() []int) {}
