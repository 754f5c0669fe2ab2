// Package fault names the steps of open, commit, push and the like at which a
// test may kill the process, to see what the next start makes of what is left.
// In an ordinary build Point is empty and costs nothing; a build with tag
// "faults" obeys the variables TARN_FAULT and TARN_FAULT_WORKER.
//
// It must not know what the steps do, and nothing may depend on its result.
package fault
