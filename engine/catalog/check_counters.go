package catalog

import (
	"encoding/hex"
	"fmt"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// farAhead is how far above what it must be a counter may stand before it is
// worth a word. More than DuckLake takes for one commit of any size we know.
const farAhead = 1 << 20

// counterState is a counter as it stands in the store.
type counterState struct {
	next uint64
	err  error // it cannot be read
}

func (c *checker) counterPair(k keys.Key, p kv.KV) {
	n, err := keys.OpenU64(keys.TagCounter, p.Value)
	if err == nil && n > counters.MaxNext {
		// Repair never lowers a counter, so it can do nothing here.
		c.add(CodeSystem, p.Key, "%v is %d, more than DuckLake can hold", k, n)
	}
	c.counter[string(p.Key)] = counterState{n, err}
}

// counters compares every counter with the ids in the rows: the persisted next
// must be greater than each. Only then is a commit's id sure to be new.
func (c *checker) counters() {
	for _, d := range counters.Domains() {
		if d == counters.FileID && mutant.Is(mutant.VerifyDomain) {
			continue
		}
		c.compareCounter(d.String(), d.Key(), c.usedNext(d), c.said.global[d])
	}
	tables := map[uint64]bool{}
	for table := range c.used.columns {
		tables[table] = true
	}
	for key := range c.counter {
		if k, _, err := ParseKey([]byte(key)); err == nil && len(key) == 10 {
			tables[k.Table] = true
		}
	}
	for _, table := range sortedUints(tables) {
		key := keys.CounterColumn(table)
		if _, there := c.counter[string(key)]; c.RockLake && !there {
			continue // RockLake never wrote one: its columns are numbered by the catalog or by the client
		}
		c.compareCounter(fmt.Sprintf("next_column_id of table %d", table), key, c.used.columns[table], 0)
	}
}

// compareCounter judges one counter by the least next the rows allow, and by
// the next that DuckLake's own snapshots name.
func (c *checker) compareCounter(name string, key []byte, used, said uint64) {
	have, found := c.counter[string(key)]
	want := max(used, said)
	f := Finding{Key: hex.EncodeToString(key), Repair: &Advance{Counter: name, Key: key, Proposed: want}}
	if used > 0 {
		top := used - 1
		f.Repair.MaxID = &top
	}
	if found && have.err == nil {
		f.Repair.Current = &have.next
	}
	switch {
	case found && have.err != nil:
		f.Code = CodeSystem
		f.Message = fmt.Sprintf("%s cannot be read: %v; %s: it must be %d", name, have.err, usedUpTo(used), want)
	case !found && want > 0:
		f.Code = CodeSystem
		f.Message = fmt.Sprintf("%s is missing, but %s: it must be %d", name, usedUpTo(used), want)
	case have.next < used:
		f.Code = CodeCounter
		f.Message = fmt.Sprintf("%s is %d, but %s: it must be %d", name, have.next, usedUpTo(used), want)
	case have.next < said:
		f.Code = CodeNext
		f.Message = fmt.Sprintf("%s is %d, but a snapshot says that %d is next: it must be %d", name, have.next, said, want)
	case have.next > want && have.next-want > farAhead && have.next <= counters.MaxNext:
		f.Code = CodeAhead
		if !mutant.Is(mutant.RepairLowers) {
			f.Repair = nil
		}
		f.Message = fmt.Sprintf("%s is %d, far above the %d that would do; that is allowed", name, have.next, want)
	default:
		return
	}
	c.found(f)
}

func usedUpTo(used uint64) string {
	if used == 0 {
		return "no row has such an id"
	}
	return fmt.Sprintf("rows use ids up to %d", used-1)
}
