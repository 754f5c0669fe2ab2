//go:build mutant_desync_opened

package mutant

// killed by: ./engine/catalog TestCounterContract
const active = DesyncOpened
