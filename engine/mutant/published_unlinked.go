//go:build mutant_published_unlinked

package mutant

// killed by: ./fs TestMountedData
const active = PublishedUnlinked
