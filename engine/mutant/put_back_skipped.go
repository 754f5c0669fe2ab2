//go:build mutant_put_back_skipped

package mutant

// killed by: ./engine/work TestTakenFiles
const active = PutBackSkipped
