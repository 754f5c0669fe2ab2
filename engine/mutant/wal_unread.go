//go:build mutant_wal_unread

package mutant

// killed by: ./engine/kv/sqlitekv TestDamagedWAL
const active = WALUnread
