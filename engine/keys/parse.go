package keys

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Key is a parsed key.
type Key struct {
	Tag     byte
	Layout  *Layout // rows only
	Values  []Value // rows only, one a part of Layout
	Counter byte    // counters only: second byte
	Table   uint64  // column counters only
	Suffix  string  // system keys only
	Tail    []byte  // system keys only; a part of the parsed bytes
}

// Parse splits any key. The layouts of the rows are asked for by tag; a tag
// that layout does not know is ErrUnknownTag.
func Parse(key []byte, layout func(tag byte) (*Layout, bool)) (Key, error) {
	if len(key) == 0 {
		return Key{}, fmt.Errorf("%w: empty key", ErrMalformed)
	}
	k := Key{Tag: key[0]}
	switch key[0] {
	case TagCounter:
		return parseCounter(key)
	case TagSystem:
		var err error
		k.Suffix, k.Tail, err = parseSystem(key)
		return k, err
	}
	l, ok := layout(key[0])
	if !ok {
		return Key{}, fmt.Errorf("%w: %02x", ErrUnknownTag, key[0])
	}
	values, err := l.Parse(key)
	if err != nil {
		return Key{}, err
	}
	k.Layout, k.Values = l, values
	return k, nil
}

func parseCounter(key []byte) (Key, error) {
	if len(key) < 2 {
		return Key{}, fmt.Errorf("%w: counter key % x", ErrMalformed, key)
	}
	k := Key{Tag: TagCounter, Counter: key[1]}
	switch key[1] {
	case counterSnapshot, counterCatalog, counterFile:
		if len(key) != 2 {
			return Key{}, fmt.Errorf("%w: counter key % x", ErrMalformed, clip(key))
		}
	case counterColumn:
		// RockLake's 2-byte FE 04 was a checkpoint counter: refused here, never
		// taken for a table.
		if len(key) != 10 {
			return Key{}, fmt.Errorf("%w: counter key % x", ErrMalformed, clip(key))
		}
		k.Table = binary.BigEndian.Uint64(key[2:])
	default:
		return Key{}, fmt.Errorf("%w: counter %02x", ErrUnknownTag, key[1])
	}
	return k, nil
}

// String prints the key for people: counter:snapshot, counter:column/42,
// sys:writer-epoch, table{schema_id=1 table_id=42 begin_snapshot=5}.
func (k Key) String() string {
	switch k.Tag {
	case TagCounter:
		switch k.Counter {
		case counterSnapshot:
			return "counter:snapshot"
		case counterCatalog:
			return "counter:catalog"
		case counterFile:
			return "counter:file"
		}
		return fmt.Sprintf("counter:column/%d", k.Table)
	case TagSystem:
		return "sys:" + k.Suffix + showTail(k.Suffix, k.Tail)
	}
	var b strings.Builder
	b.WriteString(k.Layout.Name)
	b.WriteByte('{')
	for i, p := range k.Layout.Parts {
		if i > 0 {
			b.WriteByte(' ')
		}
		if p.Kind == Text {
			fmt.Fprintf(&b, "%s=%q", p.Name, k.Values[i].Text)
		} else {
			fmt.Fprintf(&b, "%s=%d", p.Name, k.Values[i].Num)
		}
	}
	b.WriteByte('}')
	return b.String()
}

// After is the first key that does not start with prefix: the exclusive end of
// a scan over it. It is nil, no bound, when there is none (all bytes FF).
func After(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}
