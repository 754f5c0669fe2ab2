//go:build mutant_reader_writes

package mutant

// killed by: ./engine/kv/sqlitekv TestConformance
const active = ReaderWrites
