package keys

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tarnfs/tarn/engine/mutant"
)

// Kind is how one part of a row's key is encoded.
type Kind uint8

const (
	U64  Kind = iota // 8 bytes, big-endian
	Text             // u16 length, big-endian, then the bytes
	U8               // 1 byte, a number of a short list
)

// Part is one part of a row's key.
type Part struct {
	Name string
	Kind Kind
	Max  uint8 // U8 only: the greatest number allowed
}

// Layout is the shape of the keys of one tag.
type Layout struct {
	Tag   byte
	Name  string
	Parts []Part
}

// Value is one part of a parsed key: Num for U64 and U8, Text for Text.
type Value struct {
	Num  uint64
	Text string
}

// Encode appends the key made of values to dst. There must be as many values
// as parts; fewer or more is a fault of the caller and panics.
func (l *Layout) Encode(dst []byte, values ...Value) ([]byte, error) {
	if len(values) != len(l.Parts) {
		panic(fmt.Sprintf("keys: %s has %d parts, got %d", l.Name, len(l.Parts), len(values)))
	}
	dst = append(dst, l.Tag)
	for i, p := range l.Parts {
		v := values[i]
		switch p.Kind {
		case U64:
			dst = binary.BigEndian.AppendUint64(dst, v.Num)
		case U8:
			if v.Num > uint64(p.Max) {
				return nil, fmt.Errorf("%w: %s.%s is %d, at most %d", ErrOutOfRange, l.Name, p.Name, v.Num, p.Max)
			}
			dst = append(dst, byte(v.Num))
		case Text:
			// Checked, never cut: a length that wraps would give two rows one key.
			if len(v.Text) > math.MaxUint16 && !mutant.Is(mutant.KeyLengthWraps) {
				return nil, fmt.Errorf("%w: %s.%s has %d", ErrTooLong, l.Name, p.Name, len(v.Text))
			}
			dst = binary.BigEndian.AppendUint16(dst, uint16(len(v.Text)))
			dst = append(dst, v.Text...)
		}
	}
	return dst, nil
}

// Parse splits a key of this layout into its parts. Every byte must be used.
func (l *Layout) Parse(key []byte) ([]Value, error) {
	if len(key) == 0 || key[0] != l.Tag {
		return nil, fmt.Errorf("%w: % x is not a key of %s", ErrUnknownTag, clip(key), l.Name)
	}
	rest := key[1:]
	values := make([]Value, len(l.Parts))
	short := func(p Part) error {
		return fmt.Errorf("%w: %s key % x ends inside %s", ErrMalformed, l.Name, clip(key), p.Name)
	}
	for i, p := range l.Parts {
		switch p.Kind {
		case U64:
			if len(rest) < 8 {
				return nil, short(p)
			}
			values[i].Num, rest = binary.BigEndian.Uint64(rest), rest[8:]
		case U8:
			if len(rest) < 1 {
				return nil, short(p)
			}
			if rest[0] > p.Max {
				return nil, fmt.Errorf("%w: %s.%s is %d, at most %d", ErrOutOfRange, l.Name, p.Name, rest[0], p.Max)
			}
			values[i].Num, rest = uint64(rest[0]), rest[1:]
		case Text:
			if len(rest) < 2 {
				return nil, short(p)
			}
			n := int(binary.BigEndian.Uint16(rest))
			if len(rest) < 2+n {
				return nil, short(p)
			}
			values[i].Text, rest = string(rest[2:2+n]), rest[2+n:]
		}
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %s key % x has %d bytes too many", ErrMalformed, l.Name, clip(key), len(rest))
	}
	return values, nil
}

// clip keeps an error message readable whatever the key.
func clip(key []byte) []byte { return key[:min(len(key), 48)] }
