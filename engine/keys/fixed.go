package keys

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// First bytes of the keys that are not rows; part of the format, do not reuse.
// 1D to 20 are retired in RockLake and stay unused here.
const (
	TagCounter byte = 0xFE
	TagSystem  byte = 0xFF
)

// Second byte of the counters; part of the format, do not reuse.
const (
	counterSnapshot byte = 0x01
	counterCatalog  byte = 0x02
	counterFile     byte = 0x03
	counterColumn   byte = 0x04
)

// CounterSnapshot is the key of the SnapshotId counter.
func CounterSnapshot() []byte { return []byte{TagCounter, counterSnapshot} }

// CounterCatalog is the key of the CatalogId counter.
func CounterCatalog() []byte { return []byte{TagCounter, counterCatalog} }

// CounterFile is the key of the FileId counter.
func CounterFile() []byte { return []byte{TagCounter, counterFile} }

// CounterColumn is the key of the ColumnId counter of one table.
func CounterColumn(table uint64) []byte {
	return binary.BigEndian.AppendUint64(CounterColumnPrefix(), table)
}

// CounterColumnPrefix is what all ColumnId counters start with.
func CounterColumnPrefix() []byte { return []byte{TagCounter, counterColumn} }

// Suffixes of the system keys. The first four are RockLake's; those that start
// with "tarn-" are our own. Part of the format, do not reuse.
const (
	SuffixWriterEpoch   = "writer-epoch"           // u64
	SuffixWriterNonce   = "writer-nonce"           // UUID text, no header
	SuffixRetainFrom    = "retain-from"            // u64, lowest snapshot that is answered
	SuffixFormatVersion = "catalog-format-version" // u32

	SuffixOwner   = "tarn-owner"    // text: who opened for writing last
	SuffixBase    = "tarn-base"     // JSON: version and snapshot the working catalog stands on
	SuffixPushed  = "tarn-pushed"   // JSON: last version that was published
	SuffixJournal = "tarn-journal:" // + sequence u64: JSON, one committed version
	SuffixVersion = "tarn-version:" // + version ID text: u64 sequence of its journal entry
	SuffixSource  = "tarn-sha:"     // + 32 bytes: JSON, the data file with these bytes
	SuffixNote    = "tarn-note:"    // + name: text, a remark of the engine
	SuffixAudit   = "tarn-audit:"   // + sequence u64: JSON, one repair
)

// System is the key FF + suffix + tail.
func System(suffix string, tail ...byte) []byte {
	k := make([]byte, 0, 1+len(suffix)+len(tail))
	k = append(k, TagSystem)
	k = append(k, suffix...)
	return append(k, tail...)
}

// Journal is the key of the journal entry with this sequence number.
func Journal(sequence uint64) []byte {
	return binary.BigEndian.AppendUint64(System(SuffixJournal), sequence)
}

// Audit is the key of the record of a repair with this sequence number.
func Audit(sequence uint64) []byte {
	return binary.BigEndian.AppendUint64(System(SuffixAudit), sequence)
}

// Source is the key of the data file whose bytes have this SHA-256.
func Source(sha256 [32]byte) []byte { return System(SuffixSource, sha256[:]...) }

// tails says what may follow a suffix: a fixed number of bytes, or, when
// negative, any number.
var tails = []struct {
	suffix string
	tail   int
}{
	{SuffixWriterEpoch, 0}, {SuffixWriterNonce, 0}, {SuffixRetainFrom, 0}, {SuffixFormatVersion, 0},
	{SuffixOwner, 0}, {SuffixBase, 0}, {SuffixPushed, 0},
	{SuffixJournal, 8}, {SuffixVersion, -1}, {SuffixSource, 32}, {SuffixNote, -1}, {SuffixAudit, 8},
}

// parseSystem finds suffix and tail of a system key. Matching is against the
// whole list, never by any prefix: one suffix must not swallow another.
func parseSystem(key []byte) (suffix string, tail []byte, err error) {
	rest := key[1:]
	for _, t := range tails {
		if len(rest) < len(t.suffix) || string(rest[:len(t.suffix)]) != t.suffix {
			continue
		}
		tail = rest[len(t.suffix):]
		if t.tail < 0 || len(tail) == t.tail {
			return t.suffix, tail, nil
		}
	}
	return "", nil, fmt.Errorf("%w: system key %q", ErrUnknownTag, clip(rest))
}

// showTail prints a tail for people.
func showTail(suffix string, tail []byte) string {
	switch suffix {
	case SuffixJournal, SuffixAudit:
		return fmt.Sprint(binary.BigEndian.Uint64(tail))
	case SuffixSource:
		return hex.EncodeToString(tail)
	}
	return string(tail)
}
