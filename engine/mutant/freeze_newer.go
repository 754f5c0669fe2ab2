//go:build mutant_freeze_newer

package mutant

// killed by: ./engine/lake/worker TestFreezeOlder
const active = FreezeNewer
