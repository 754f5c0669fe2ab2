//go:build mutant_version_first

package mutant

// killed by: ./engine/repo TestOrderOfWrites
const active = VersionFirst
