package catalog

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// rockLakeState is what is compared between a RockLake catalog and the indexes
// it keeps of itself.
type rockLakeState struct {
	files  map[int64]rockLakeFile // by data_file_id, the rows of 0B
	schema map[int64]int64        // by table_id, the schema of its last version
	listed map[int64]bool         // tables that FC has
	// mapping is the greatest mapping id: RockLake takes it from the catalog's
	// counter, DuckLake from the files'.
	mapping int64
}

type rockLakeFile struct {
	table, begin int64
	sum          uint64
	copied       bool // 21 has it
}

// rockLakePair looks at one pair of a RockLake catalog.
func (c *checker) rockLakePair(p kv.KV) {
	if c.rockLake.files == nil {
		c.rockLake = rockLakeState{files: map[int64]rockLakeFile{}, schema: map[int64]int64{}, listed: map[int64]bool{}}
	}
	if len(p.Key) == 0 {
		c.add(CodeTag, p.Key, "an empty key")
		return
	}
	tag := p.Key[0]
	if t := byTag[tag]; t != nil {
		c.rockLakeRow(t, p)
		return
	}
	switch tag {
	case rockFileIndex:
		c.rockLakeCopy(p)
	case rockLease:
		c.rockLakeLease(p)
	case rockExtension, rockSecret, rockCipherKey:
		// Not DuckLake's, and nothing refers to them.
	case rockTableIndex:
		c.rockLakeListed(p)
	case rockInlined:
		c.rockLakeInlined(p)
	case keys.TagCounter:
		c.rockLakeCounter(p)
	case keys.TagSystem:
		c.rockLakeSystem(p)
	default:
		c.add(CodeTag, p.Key, "a key of the unknown tag %02x", tag)
	}
}

func (c *checker) rockLakeRow(t *Table, p kv.KV) {
	parts, values, err := parseRockLakeRow(t, p.Key)
	if err != nil {
		c.add(CodeTag, p.Key, "%v", err)
		return
	}
	if t == snapshotTable {
		c.snapshotRow(int64(min(values[0], math.MaxInt64)))
	}
	row, err := t.DecodeRow(p.Value)
	if err != nil {
		c.add(CodeValue, p.Key, "%v", err)
		c.unreadRow(t, parts, values)
		if t.Name == "table" {
			c.rockLake.schema[int64(values[1])] = int64(values[0])
		}
		return
	}
	for i, column := range parts {
		if column == "" {
			continue
		}
		if n, ok := row[t.Col(column)].(int64); ok && uint64(n) != values[i] {
			c.add(CodeValue, p.Key, "a %s row has %s %d, its key says %d", t.Name, column, n, values[i])
			return
		}
	}
	c.said.announced(t, row)
	switch t.Name {
	case "column_mapping", "name_mapping":
		if id, ok := row[0].(int64); ok {
			c.rockLake.mapping = max(c.rockLake.mapping, id+1)
		}
	case "data_file":
		id, _ := row[0].(int64)
		table, _ := row[t.Col("table_id")].(int64)
		begin, _ := row[t.begin].(int64)
		c.rockLake.files[id] = rockLakeFile{table: table, begin: begin, sum: sumOf(p.Value)}
		c.used.used(t, row)
	case "table":
		id, _ := row[0].(int64)
		schema, _ := row[t.Col("schema_id")].(int64)
		c.rockLake.schema[id] = schema
		c.used.used(t, row)
	default:
		c.used.used(t, row)
	}
	c.row(t, row, p.Key)
}

func sumOf(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return h.Sum64()
}

// rockLakeCopy holds a copy in the index of files by snapshot against its row.
func (c *checker) rockLakeCopy(p kv.KV) {
	n, err := rockLakeNumbers(p.Key[1:], 3)
	if err != nil {
		c.add(CodeTag, p.Key, "file index: %v", err)
		return
	}
	id := int64(n[2])
	f, ok := c.rockLake.files[id]
	switch {
	case !ok:
		c.add(CodeIndex, p.Key, "the index of files by snapshot has data file %d, which has no row", id)
		return
	case f.copied:
		c.add(CodeIndex, p.Key, "the index of files by snapshot has data file %d twice", id)
	case uint64(f.table) != n[0] || uint64(f.begin) != n[1]:
		c.add(CodeIndex, p.Key, "the index of files by snapshot has data file %d under table %d and snapshot %d, its row is of table %d and snapshot %d", id, n[0], n[1], f.table, f.begin)
	case f.sum != sumOf(p.Value):
		c.add(CodeIndex, p.Key, "the index of files by snapshot has another data file %d than its row", id)
	}
	f.copied = true
	c.rockLake.files[id] = f
}

// rockLakeIndexes finds what the indexes lack.
func (c *checker) rockLakeIndexes() {
	for _, id := range sortedKeys(c.rockLake.files) {
		if f := c.rockLake.files[id]; !f.copied {
			key := binary.BigEndian.AppendUint64([]byte{rockFileIndex}, uint64(f.table))
			key = binary.BigEndian.AppendUint64(key, uint64(f.begin))
			c.add(CodeIndex, binary.BigEndian.AppendUint64(key, uint64(id)), "the index of files by snapshot lacks data file %d", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.rockLake.schema)) {
		if !c.rockLake.listed[id] {
			c.add(CodeIndex, binary.BigEndian.AppendUint64([]byte{rockTableIndex}, uint64(id)), "the index of tables lacks table %d", id)
		}
	}
}

// rockLakeListed holds an entry of the index of tables against the table.
func (c *checker) rockLakeListed(p kv.KV) {
	if len(p.Key) == 25 {
		return // the form no program writes
	}
	n, err := rockLakeNumbers(p.Key[1:], 1)
	if err != nil {
		c.add(CodeTag, p.Key, "table index: %v", err)
		return
	}
	id := int64(n[0])
	c.rockLake.listed[id] = true
	schema, err := keys.OpenU64(rockTableIndex, p.Value)
	was, ok := c.rockLake.schema[id]
	switch {
	case err != nil:
		c.add(CodeValue, p.Key, "table index: %v", err)
	case !ok:
		c.add(CodeIndex, p.Key, "the index of tables has table %d, which has no row", id)
	case uint64(was) != schema:
		c.add(CodeIndex, p.Key, "the index of tables has table %d in schema %d, its row says %d", id, schema, was)
	}
}

func (c *checker) rockLakeInlined(p kv.KV) {
	if len(p.Key) != 26 || p.Key[1] != 0x01 && p.Key[1] != 0x02 {
		c.add(CodeTag, p.Key, "a key of inlined rows that is none")
		return
	}
	payload, _, err := keys.Open(rockInlined, p.Value)
	if err != nil {
		c.add(CodeValue, p.Key, "inlined row: %v", err)
		return
	}
	f, ok := protoNumbers(payload)
	if !ok {
		c.add(CodeValue, p.Key, "inlined row: not a message")
		return
	}
	table := int64(binary.BigEndian.Uint64(p.Key[2:]))
	if _, ok := c.exist[Lookup("table")][table]; !ok {
		c.add(CodeOrphan, p.Key, "an inlined row of table %d, which is no table", table)
	}
	begin, end := f[5], f[6]
	if p.Key[1] == 0x02 {
		begin, end = f[4], 0
	}
	if begin > uint64(max(c.Latest, 0)) || end > uint64(max(c.Latest, 0)) {
		c.add(CodeSnapshot, p.Key, "an inlined row names snapshot %d, the newest is %d", max(begin, end), c.Latest)
	}
	if end != 0 && end <= begin {
		c.add(CodeInterval, p.Key, "an inlined row ends at snapshot %d, but begins at %d", end, begin)
	}
}

func (c *checker) rockLakeLease(p kv.KV) {
	f, ok := protoNumbers(p.Value)
	if !ok || len(p.Key) < 3 {
		c.add(CodeValue, p.Key, "lease: not a message")
		return
	}
	if at := f[3]; !c.now.IsZero() && at <= uint64(max(c.now.UnixMilli(), 0)) {
		c.add(CodeStale, p.Key, "the lease of %q on snapshot %d has expired", p.Key[3:], f[2])
	}
	if f[2] > uint64(max(c.Latest, 0)) {
		c.add(CodeSnapshot, p.Key, "the lease of %q is on snapshot %d, the newest is %d", p.Key[3:], f[2], c.Latest)
	}
}

func (c *checker) rockLakeCounter(p kv.KV) {
	if !rockLakeCounter(p.Key) {
		c.add(CodeTag, p.Key, "a counter of no known domain")
		return
	}
	n, err := keys.OpenU64(keys.TagCounter, p.Value)
	if len(p.Key) == 2 && p.Key[1] > 0x03 || len(p.Key) == 10 && p.Key[1] != 0x04 {
		if err != nil {
			c.add(CodeSystem, p.Key, "counter: %v", err)
		}
		return // checkpoints, excisions, row ids: nothing of ours is numbered by them
	}
	if err == nil && n > counters.MaxNext {
		c.add(CodeSystem, p.Key, "the counter is %d, more than DuckLake can hold", n)
	}
	c.counter[string(p.Key)] = counterState{n, err}
}

func (c *checker) rockLakeSystem(p kv.KV) {
	if k, _, err := ParseKey(p.Key); err == nil {
		c.systemPair(k, p)
		return
	}
	suffix, tail, ok := rockLakeSystem(p.Key)
	if !ok {
		c.add(CodeTag, p.Key, "a system key that RockLake does not have")
		return
	}
	switch suffix {
	case "pinned:":
		c.rockLakePin(p.Key, int64(min(binary.BigEndian.Uint64(tail), math.MaxInt64)))
	case "checkpoint:":
		payload, _, err := keys.Open(keys.TagSystem, p.Value)
		f, ok := protoNumbers(payload)
		if err != nil || !ok {
			c.add(CodeValue, p.Key, "checkpoint: not a message")
			return
		}
		c.rockLakePin(p.Key, int64(min(f[3], math.MaxInt64)))
	}
}

func (c *checker) rockLakePin(key []byte, snapshot int64) {
	switch {
	case snapshot < c.base:
		c.add(CodeStale, key, "snapshot %d is pinned, but what is kept begins at %d", snapshot, c.base)
	case snapshot > c.Latest:
		c.add(CodeSnapshot, key, "snapshot %d is pinned, the newest is %d", snapshot, c.Latest)
	}
}

// usedNext is the least next the rows allow a counter.
func (c *checker) usedNext(d counters.Domain) uint64 {
	used := c.used.global[d]
	if m := uint64(c.rockLake.mapping); d == counters.FileID && m > used && m > c.counter[string(counters.CatalogID.Key())].next {
		return m
	}
	return used
}

// protoNumbers reads the varint fields of a message, and passes over the others.
func protoNumbers(b []byte) (map[protowire.Number]uint64, bool) {
	out := map[protowire.Number]uint64{}
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return nil, false
		}
		b = b[k:]
		if typ == protowire.VarintType {
			v, k := protowire.ConsumeVarint(b)
			if k < 0 {
				return nil, false
			}
			out[n], b = v, b[k:]
			continue
		}
		if k = protowire.ConsumeFieldValue(n, typ, b); k < 0 {
			return nil, false
		}
		b = b[k:]
	}
	return out, true
}
