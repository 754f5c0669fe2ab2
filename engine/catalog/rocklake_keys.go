package catalog

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/keys"
)

// RockLake's keys, where they are not ours. Its catalogs are read for
// inspection only, so the shapes are known here and nowhere else.
//
//	04    schema u64                                  no begin_snapshot
//	0D    schedule_start u64 (seconds), data_file u64
//	10    mapping u64, column u64, hash u64           a hash, or 0, for the name
//	14    table u64, column u64, hash u64, file u64
//	1A    object u64, hash u64, begin u64
//	1B    table u64, column u64, hash u64, begin u64
//	21    table u64, begin u64, file u64              a copy of the row of 0B
//	22    consumer (text)                             lease, bare protobuf
//	23    extension u8, table (text), row u64
//	24    secret u64
//	25    catalog u64, begin u64
//	FC    table u64                                   the table's schema
//	FC    snapshot u64, table u64, file u64           unused
//	FD 01 table u64, schema_version u64, row u64      inlined row
//	FD 02 table u64, data_file u64, row u64           inlined delete
//	FE 01 02 03; FE 04 checkpoint, FE 05 excision, FE 10 and FE 11 + table u64
//	FF    ASCII suffix, with a binary tail for some
var rockLakeParts = map[byte][]string{
	0x04: {"schema_id"},
	0x0D: {"", "data_file_id"},
	0x10: {"mapping_id", "column_id", ""},
	0x14: {"table_id", "column_id", "", "data_file_id"},
	0x1A: {"object_id", "", "begin_snapshot"},
	0x1B: {"table_id", "column_id", "", "begin_snapshot"},
}

const (
	rockFileIndex  byte = 0x21
	rockLease      byte = 0x22
	rockExtension  byte = 0x23
	rockSecret     byte = 0x24
	rockCipherKey  byte = 0x25
	rockTableIndex byte = 0xFC
	rockInlined    byte = 0xFD
)

// rockLakeSuffixes are RockLake's system keys beside those we share, and how
// many bytes follow; -1: any.
var rockLakeSuffixes = []struct {
	suffix string
	tail   int
}{
	{"endpoint", 0}, {"hot-key", 0}, {"packed-meta", 8}, {"pinned:", 8}, {"checkpoint:", 8}, {"checkpoint-pin:", -1},
	{"audit", 8}, {"excised:", 13}, {"key-encoding-v020-migrated", 0},
}

// parseRockLakeRow splits the key of a row; the numbers are those of parts,
// which name a column or, as "", a hash or time that stands in no column.
func parseRockLakeRow(t *Table, key []byte) (parts []string, values []uint64, err error) {
	parts, ok := rockLakeParts[t.Tag]
	if !ok {
		k, _, err := ParseKey(key)
		if err != nil {
			return nil, nil, err
		}
		for i, p := range t.Key {
			if p.Text || p.Enum != nil {
				continue
			}
			parts, values = append(parts, p.Column), append(values, k.Values[i].Num)
		}
		return parts, values, nil
	}
	values, err = rockLakeNumbers(key[1:], len(parts))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s key %x: %w", keys.ErrMalformed, t.Name, key, err)
	}
	return parts, values, nil
}

func rockLakeNumbers(b []byte, n int) ([]uint64, error) {
	if len(b) != 8*n {
		return nil, fmt.Errorf("%d bytes of numbers, want %d", len(b), 8*n)
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return out, nil
}

// rockLakeSystem finds suffix and tail of a system key that only RockLake has.
func rockLakeSystem(key []byte) (suffix string, tail []byte, ok bool) {
	rest := string(key[1:])
	for _, s := range rockLakeSuffixes {
		tail, found := strings.CutPrefix(rest, s.suffix)
		if found && (s.tail < 0 || len(tail) == s.tail) {
			return s.suffix, []byte(tail), true
		}
	}
	return "", nil, false
}

// rockLakeCounter says whether a key is a counter of RockLake's, and of which
// table, if of one.
func rockLakeCounter(key []byte) bool {
	switch {
	case len(key) == 2:
		return key[1] >= 0x01 && key[1] <= 0x05
	case len(key) == 10:
		return key[1] == 0x04 || key[1] == 0x10 || key[1] == 0x11
	}
	return false
}
