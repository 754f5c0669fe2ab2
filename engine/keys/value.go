package keys

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tarnfs/tarn/engine/mutant"
)

// Values carry a header of two bytes:
//
//	0        1         2
//	+--------+---------+---------
//	| 01     | tag     | payload
//	+--------+---------+---------
//
// 01 is the version of this form. The tag is the first byte of the key the
// value belongs to, so that a value under a foreign key is noticed. A counter
// or a u64 of the system is 10 bytes: header and a big-endian u64.
//
// RockLake writes 01 "SDKV" payload instead, 13 bytes for a counter. Both are
// read; no tag is 53 ("S"), so they cannot be confused. We write only ours.
const valueVersion = 0x01

// magic follows the version in RockLake's form.
const magic = "SDKV"

var (
	// ErrValue is a value that is too short, too long, or whose tag is not its key's.
	ErrValue = errors.New("keys: malformed value")
	// ErrValueVersion is a value in a form this program does not know.
	ErrValueVersion = errors.New("keys: unknown value version")
)

// Seal appends header and payload to dst.
func Seal(dst []byte, tag byte, payload []byte) []byte {
	dst = append(dst, valueVersion, tag)
	return append(dst, payload...)
}

// Open splits a value of a key with this tag. RockLake says whether it is in
// RockLake's form. The payload is a part of value.
func Open(tag byte, value []byte) (payload []byte, rockLake bool, err error) {
	if len(value) < 2 {
		return nil, false, fmt.Errorf("%w: %d bytes, the header has 2", ErrValue, len(value))
	}
	if value[0] != valueVersion {
		return nil, false, fmt.Errorf("%w: %02x", ErrValueVersion, value[0])
	}
	if len(value) >= 5 && string(value[1:5]) == magic {
		return value[5:], true, nil
	}
	if value[1] != tag && !mutant.Is(mutant.ValueTagUnread) {
		return nil, false, fmt.Errorf("%w: tag %02x under a key of tag %02x", ErrValue, value[1], tag)
	}
	return value[2:], false, nil
}

// SealU64 is the value of a counter (tag TagCounter) or of a u64 of the system
// (TagSystem): exactly 10 bytes.
func SealU64(tag byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(Seal(make([]byte, 0, 10), tag, nil), n)
}

// OpenU64 reads what SealU64 wrote, or RockLake's 13 bytes. Bytes that follow are an error.
func OpenU64(tag byte, value []byte) (uint64, error) {
	p, _, err := Open(tag, value)
	if err != nil {
		return 0, err
	}
	if len(p) != 8 {
		return 0, fmt.Errorf("%w: %d bytes of number, want 8", ErrValue, len(p))
	}
	return binary.BigEndian.Uint64(p), nil
}

// SealU32 is the value of the format version: 6 bytes.
func SealU32(tag byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(Seal(make([]byte, 0, 6), tag, nil), n)
}

// OpenU32 reads what SealU32 wrote, or RockLake's 9 bytes, and says which.
func OpenU32(tag byte, value []byte) (n uint32, rockLake bool, err error) {
	p, rock, err := Open(tag, value)
	if err != nil {
		return 0, false, err
	}
	if len(p) != 4 {
		return 0, false, fmt.Errorf("%w: %d bytes of number, want 4", ErrValue, len(p))
	}
	return binary.BigEndian.Uint32(p), rock, nil
}
