//go:build mutant_commit_split

package mutant

// killed by: ./engine/catalog TestOneCommit
const active = CommitSplit
