package catalog

import (
	"encoding/binary"
	"math"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// pair looks at one pair by itself, and collects what is compared later.
func (c *checker) pair(p kv.KV) {
	k, t, err := ParseKey(p.Key)
	if err != nil {
		c.add(CodeTag, p.Key, "%v", err)
		return
	}
	switch k.Tag {
	case keys.TagCounter:
		c.counterPair(k, p)
		return
	case keys.TagSystem:
		c.systemPair(k, p)
		return
	}
	if t == snapshotTable {
		// By its key alone: one whose value is lost was committed all the same.
		c.snapshotRow(int64(min(k.Values[0].Num, math.MaxInt64)))
	}
	row, err := t.DecodeRow(p.Value)
	if err != nil {
		c.add(CodeValue, p.Key, "%v", err)
		var parts []string
		var values []uint64
		for i, part := range t.Key {
			if !part.Text && part.Enum == nil {
				parts, values = append(parts, part.Column), append(values, k.Values[i].Num)
			}
		}
		c.unreadRow(t, parts, values)
		return
	}
	switch key, err := t.KeyOf(nil, row); {
	case err != nil:
		c.add(CodeValue, p.Key, "%v: the row has no key: %v", k, err)
		return
	case string(key) != string(p.Key):
		c.add(CodeValue, p.Key, "%v holds the row of %s", k, showKey(key))
		return
	}
	c.used.used(t, row)
	c.said.announced(t, row)
	c.row(t, row, p.Key)
}

// unreadRow makes of a row whose value is lost what its key tells: its ids are
// in use, and what refers to it refers to something.
func (c *checker) unreadRow(t *Table, parts []string, values []uint64) {
	row := make(Row, len(t.Columns))
	for i, column := range parts {
		if column != "" && values[i] <= math.MaxInt64 {
			row[t.Col(column)] = int64(values[i])
		}
	}
	c.used.used(t, row)
	if !t.named {
		return
	}
	if id, ok := row[t.objectColumn(t.Columns[0].Name)].(int64); ok {
		if c.exist[t] == nil {
			c.exist[t] = map[int64]span{}
		}
		c.exist[t][id] = span{0, -1} // nobody can say when
	}
}

func (c *checker) systemPair(k keys.Key, p kv.KV) {
	var err error
	switch k.Suffix {
	case keys.SuffixWriterEpoch, keys.SuffixRetainFrom:
		_, err = keys.OpenU64(keys.TagSystem, p.Value)
	case keys.SuffixFormatVersion:
		c.format = true
		err = checkFormat(p.Value)
	case keys.SuffixVersion:
		var n uint64
		if n, err = keys.OpenU64(keys.TagSystem, p.Value); err == nil {
			c.index[string(k.Tail)] = n
		}
	case keys.SuffixJournal:
		var e JournalEntry
		err = openJSON(p.Key, p.Value, &e)
		c.journal[binary.BigEndian.Uint64(k.Tail)] = e.ID // "": nobody can say which
	case keys.SuffixBase:
		err = openJSON(p.Key, p.Value, &Base{})
	case keys.SuffixPushed:
		err = openJSON(p.Key, p.Value, &pushedMark{})
	case keys.SuffixSource:
		err = openJSON(p.Key, p.Value, &SourceRef{})
	case keys.SuffixAudit:
		err = openJSON(p.Key, p.Value, &AuditEntry{})
	case keys.SuffixNote:
		_, _, err = keys.Open(keys.TagSystem, p.Value)
	}
	if err != nil {
		c.add(CodeSystem, p.Key, "%v: %v", k, err)
	}
}

// system compares the system keys with each other.
func (c *checker) system() {
	if !c.format {
		c.add(CodeSystem, keys.System(keys.SuffixFormatVersion), "the format version is missing")
	}
	if c.Latest >= 0 && c.base > c.Latest {
		c.add(CodeSystem, keys.System(keys.SuffixRetainFrom), "the lowest snapshot, %d, is above the newest, %d", c.base, c.Latest)
	}
	for _, n := range sortedKeys(c.journal) {
		id := c.journal[n]
		key := keys.System(keys.SuffixVersion, []byte(id)...)
		switch at, ok := c.index[id]; {
		case id == "":
		case !ok:
			c.add(CodeIndex, key, "version %s is entry %d of the journal, its index lacks it", id, n)
		case at != n:
			c.add(CodeIndex, key, "version %s is entry %d of the journal, its index says %d", id, n, at)
		}
		if n == 0 || n > uint64(len(c.journal)) {
			c.add(CodeSystem, keys.Journal(n), "entry %d of a journal of %d: one before it is missing", n, len(c.journal))
		}
	}
	for _, id := range sortedKeys(c.index) {
		n := c.index[id]
		if _, ok := c.journal[n]; !ok {
			c.add(CodeIndex, keys.System(keys.SuffixVersion, []byte(id)...), "the index has version %s as entry %d, which the journal lacks", id, n)
		}
	}
}
