// Package fault names the steps of open, commit, push and the like at which a
// test may kill the process, to see what the next start makes of what is left.
// In an ordinary build Point is empty and costs nothing; a build with tag
// "faults" obeys the variables TARN_FAULT and TARN_FAULT_WORKER, and appends
// each name it passes to the file TARN_FAULT_RECORD. There
// TARN_FAULT_ANY_DISK=1 also lets a state folder lie on a FUSE file system, as
// the disk does that forgets what was not synced.
//
// It must not know what the steps do.
package fault
