package catalog

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// Codes of findings. E: the store is wrong; W: DuckLake leaves such rows, they
// do no harm. Codes are part of the interface and keep their meaning.
const (
	CodeUnread   = "E000" // the store itself cannot be read
	CodeCounter  = "E001" // a counter is not greater than every id of its domain
	CodeSystem   = "E002" // a counter or system key is missing or undecodable
	CodeInterval = "E003" // end_snapshot <= begin_snapshot, or no begin_snapshot
	CodeSnapshot = "E004" // begin or end is a snapshot that was never committed
	CodeDouble   = "E005" // two versions of one object overlap, or two live objects share a name
	CodeParent   = "E006" // the object a row refers to does not exist
	CodeValue    = "E007" // a value cannot be decoded, or does not belong to its key
	CodeTag      = "E009" // a key of no known shape
	CodeOrphan   = "W101" // a row of statistics, mapping or the like whose object is gone
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Code    string
	Key     string // hex of the key it was found at, "" when it is of no single key
	Message string
	// Repair is what a counter should be; only for CodeCounter and a missing counter.
	Repair *Advance
}

// Severe tells an error from a warning.
func (f Finding) Severe() bool { return f.Code[0] == 'E' }

func (f Finding) String() string {
	if f.Key == "" {
		return f.Code + " " + f.Message
	}
	return fmt.Sprintf("%s %s (key %s)", f.Code, f.Message, f.Key)
}

// Advance is a counter that has fallen behind.
type Advance struct {
	Counter           string
	Key               []byte
	Current, Proposed uint64
}

// maxFindings bounds what a wholly broken store can produce.
const maxFindings = 1000

// Check looks at everything a view holds: each key and value by itself, the
// counters against the rows, intervals, names and references. It goes on after
// each finding. It reads RockLake's rows too.
func Check(ctx context.Context, view kv.View) []Finding {
	c := newChecker(ctx, view)
	if v, ok := view.(kv.Verifier); ok {
		if err := v.Verify(ctx); err != nil {
			c.add(CodeUnread, nil, "the store is damaged: %v", err)
		}
	}
	for p, err := range view.Scan(ctx, nil, nil, false) {
		if err != nil {
			c.add(CodeUnread, p.Key, "the store cannot be read further: %v", err)
			return c.findings
		}
		c.pair(p)
	}
	c.system()
	c.counters()
	c.overlaps()
	c.lateReferences()
	if c.more > 0 {
		c.findings = append(c.findings, Finding{Code: CodeUnread, Message: fmt.Sprintf("and %d more findings", c.more)})
	}
	return c.findings
}

// checker is one run. Keys come in the order of their tags, so what a row
// refers to has mostly been seen before it; only references to a later tag
// are kept for the end.
type checker struct {
	ctx      context.Context
	view     kv.View
	findings []Finding
	more     int // findings beyond maxFindings

	ids      *ids
	latest   int64 // newest snapshot
	any      bool  // there is one
	format   bool
	journal  map[uint64]string // version by number
	index    map[string]uint64 // number by version
	versions map[*Table]map[string]*object
	exist    map[*Table]map[int64]bool // by the id others refer to; true: live
	names    map[string][]byte         // key of the first live row of this name
	late     []reference
}

func newChecker(ctx context.Context, view kv.View) *checker {
	return &checker{
		ctx: ctx, view: view, ids: newIDs(),
		journal: map[uint64]string{}, index: map[string]uint64{},
		versions: map[*Table]map[string]*object{}, exist: map[*Table]map[int64]bool{}, names: map[string][]byte{},
	}
}

func (c *checker) add(code string, key []byte, format string, args ...any) {
	if len(c.findings) >= maxFindings {
		c.more++
		return
	}
	c.findings = append(c.findings, Finding{Code: code, Key: hex.EncodeToString(key), Message: fmt.Sprintf(format, args...)})
}

// pair looks at one pair by itself, and collects what is compared later.
func (c *checker) pair(p kv.KV) {
	k, t, err := ParseKey(p.Key)
	if err != nil {
		c.add(CodeTag, p.Key, "%v", err)
		return
	}
	switch {
	case k.Tag == keys.TagCounter:
		n, err := keys.OpenU64(keys.TagCounter, p.Value)
		if err != nil {
			c.add(CodeSystem, p.Key, "%v: %v", k, err)
		} else if n > counters.MaxNext {
			c.add(CodeSystem, p.Key, "%v is %d, more than DuckLake can hold", k, n)
		}
		return
	case k.Tag == keys.TagSystem:
		c.systemPair(k, p)
		return
	}
	row, err := t.DecodeRow(p.Value)
	if err != nil {
		c.add(CodeValue, p.Key, "%v", err)
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
	c.ids.see(t, row)
	if t == snapshotTable {
		c.latest, c.any = int64(k.Values[0].Num), true
	}
	c.row(t, row, p.Key)
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
		if err = openJSON(p.Key, p.Value, &e); err == nil {
			c.journal[binary.BigEndian.Uint64(k.Tail)] = e.ID
		}
	case keys.SuffixBase:
		err = openJSON(p.Key, p.Value, &Base{})
	case keys.SuffixPushed:
		err = openJSON(p.Key, p.Value, &pushedMark{})
	case keys.SuffixSource:
		err = openJSON(p.Key, p.Value, &SourceRef{})
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
	if c.any {
		b, err := ReadBounds(c.ctx, c.view)
		if err != nil && !errors.Is(err, keys.ErrValue) && !errors.Is(err, keys.ErrMalformed) { // those were found
			c.add(CodeUnread, nil, "the snapshots that are kept cannot be read: %v", err)
		}
		if err == nil && b.Base > b.Latest {
			c.add(CodeSystem, keys.System(keys.SuffixRetainFrom), "the lowest snapshot, %d, is above the newest, %d", b.Base, b.Latest)
		}
	}
	if len(c.journal) != len(c.index) {
		c.add(CodeSystem, nil, "the journal has %d entries, its index %d", len(c.journal), len(c.index))
	}
	for _, n := range sortedKeys(c.journal) {
		id := c.journal[n]
		if at, ok := c.index[id]; !ok || at != n {
			c.add(CodeSystem, keys.Journal(n), "version %s is entry %d of the journal, its index says %d", id, n, at)
		}
		if n == 0 || n > uint64(len(c.journal)) {
			c.add(CodeSystem, keys.Journal(n), "entry %d of a journal of %d: one before it is missing", n, len(c.journal))
		}
	}
}

// counters compares every counter with the ids in the rows: the persisted next
// must be greater than each.
func (c *checker) counters() {
	behind := func(name string, key []byte, want uint64) {
		have, found, err := counters.Read(c.ctx, c.view, key)
		if err != nil && !found {
			c.add(CodeUnread, key, "%s cannot be read: %v", name, err)
		}
		if err != nil || have >= want {
			return // one that cannot be read was found already
		}
		code, text := CodeCounter, fmt.Sprintf("%s is %d, but rows use ids up to %d", name, have, want-1)
		if !found {
			code, text = CodeSystem, fmt.Sprintf("%s is missing, but rows use ids up to %d", name, want-1)
		}
		n := len(c.findings)
		c.add(code, key, "%s", text)
		if n < len(c.findings) {
			c.findings[n].Repair = &Advance{Counter: name, Key: key, Current: have, Proposed: want}
		}
	}
	for _, d := range counters.Domains() {
		behind(d.String(), d.Key(), c.ids.global[d])
	}
	for _, table := range sortedKeys(c.ids.columns) {
		behind(fmt.Sprintf("next_column_id of table %d", table), keys.CounterColumn(table), c.ids.columns[table])
	}
}
