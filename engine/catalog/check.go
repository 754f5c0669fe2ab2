package catalog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// Codes of findings. E: the store is wrong; W: nothing is lost by it, and a
// healthy store may have it. Codes are part of the interface and keep their
// meaning.
const (
	CodeUnread   = "E000" // the store itself cannot be read
	CodeCounter  = "E001" // a counter is not greater than every id of its domain
	CodeSystem   = "E002" // a counter or system key is missing or undecodable
	CodeInterval = "E003" // end_snapshot <= begin_snapshot, or no begin_snapshot
	CodeSnapshot = "E004" // a row names a snapshot that was never committed
	CodeDouble   = "E005" // two versions of one object overlap, or two live objects share a name
	CodeParent   = "E006" // the object a row refers to does not exist, or not at that time
	CodeValue    = "E007" // a value cannot be decoded, or does not belong to its key
	CodeIndex    = "E008" // an entry of an index is missing, different or of nothing
	CodeTag      = "E009" // a key of no known shape
	CodeNext     = "E010" // a counter is behind what a snapshot says is next
	CodeOrphan   = "W101" // a row of statistics, mapping or the like whose object is gone
	CodeGap      = "W102" // snapshot ids are not one after the other
	CodeStale    = "W103" // a lease that has expired, or a pin below what is kept
	CodeAhead    = "W104" // a counter is far ahead of the ids in use
)

// Categories name each code in one word for --json.
var Categories = map[string]string{
	CodeUnread: "unreadable", CodeCounter: "counter_consistency", CodeSystem: "system_key",
	CodeInterval: "interval", CodeSnapshot: "snapshot_reference", CodeDouble: "overlap",
	CodeParent: "foreign_key", CodeValue: "value", CodeIndex: "index", CodeTag: "unknown_key",
	CodeNext: "next_id", CodeOrphan: "orphan", CodeGap: "snapshot_gap", CodeStale: "retention",
	CodeAhead: "counter_ahead",
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Code    string
	Key     string // hex of the key it was found at, "" when it is of no single key
	Message string
	// Repair is what a counter should be; nil where repair can do nothing.
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

// maxFindings bounds what a wholly broken store can produce.
const maxFindings = 1000

// Examination is what a look at a whole store has shown.
type Examination struct {
	Findings []Finding // in the order they were found
	More     int       // findings beyond the first thousand
	Latest   int64     // newest snapshot; -1: there is none
	Pairs    int64     // pairs that were read
	RockLake bool      // the catalog is one of RockLake's
	// Err is why the store could not be read to its end; nil: it was.
	Err error
}

// Check looks at everything a view holds and gives what it found; see Examine.
func Check(ctx context.Context, view kv.View) []Finding {
	return Examine(ctx, view, time.Now()).Findings
}

// Examine looks at everything a view holds: each key and value by itself, the
// counters against the rows, intervals, snapshots, names, references and
// indexes. It goes on after each finding, writes nothing, and reads RockLake's
// catalogs too. now is what leases are held against.
//
// It reads each pair once and keeps some 100 bytes for each object (a file, a
// table, a live column), none for rows of statistics.
func Examine(ctx context.Context, view kv.View, now time.Time) *Examination {
	c := newChecker(ctx, view, now)
	c.begin()
	if v, ok := view.(kv.Verifier); ok {
		if err := v.Verify(ctx); err != nil {
			c.Err = err
			c.add(CodeUnread, nil, "the store is damaged: %v", err)
		}
	}
	var last []byte
	for p, err := range view.Scan(ctx, nil, nil, false) {
		if err != nil {
			c.unread(last, err)
			return c.done()
		}
		last = p.Key
		c.Pairs++
		if c.RockLake {
			c.rockLakePair(p)
		} else {
			c.pair(p)
		}
		if len(c.Findings) > 0 && mutant.Is(mutant.VerifyStops) {
			break
		}
	}
	c.endObject()
	c.system()
	c.counters()
	c.gaps()
	c.lateReferences()
	if c.RockLake {
		c.rockLakeIndexes()
	}
	return c.done()
}

// checker is one run. Keys come in the order of their tags, so what a row
// refers to has mostly been seen before it; only references to a later tag
// are kept for the end.
type checker struct {
	Examination
	ctx  context.Context
	view kv.View
	now  time.Time

	base     int64 // lowest snapshot that is kept
	format   bool
	counter  map[string]counterState // by key
	used     *ids                    // by the rows
	said     *ids                    // by what snapshots say is next
	journal  map[uint64]string       // version by number
	index    map[string]uint64       // number by version
	runs     []run                   // snapshots that have a row
	last     object                  // the object whose versions are being read
	exist    map[*Table]map[int64]span
	names    map[string][]byte // key of the first live row of this name
	live     lastLive          // of the rows that need no name to be alike
	late     map[reference][]byte
	rockLake rockLakeState
}

func newChecker(ctx context.Context, view kv.View, now time.Time) *checker {
	return &checker{
		ctx: ctx, view: view, now: now, Examination: Examination{Latest: -1},
		counter: map[string]counterState{}, used: newIDs(), said: newIDs(),
		journal: map[uint64]string{}, index: map[string]uint64{},
		exist: map[*Table]map[int64]span{}, names: map[string][]byte{}, late: map[reference][]byte{},
	}
}

func (c *checker) add(code string, key []byte, format string, args ...any) {
	c.found(Finding{Code: code, Key: hex.EncodeToString(key), Message: fmt.Sprintf(format, args...)})
}

func (c *checker) found(f Finding) {
	if len(c.Findings) >= maxFindings && f.Repair == nil {
		c.More++ // what repair needs is never left out
		return
	}
	c.Findings = append(c.Findings, f)
}

// unread ends the run: what follows would judge by half of the store.
func (c *checker) unread(last []byte, err error) {
	c.Err = err
	where := "from its first key on"
	if last != nil {
		where = "after key " + showKey(last)
	}
	c.add(CodeUnread, last, "the store cannot be read %s: %v", where, err)
}

func (c *checker) done() *Examination {
	if c.More > 0 {
		c.Findings = append(c.Findings, Finding{Code: CodeUnread, Message: fmt.Sprintf("and %d more findings", c.More)})
	}
	return &c.Examination
}

// begin finds out what the other pairs are judged by: whose catalog it is, and
// which snapshots it answers for.
func (c *checker) begin() {
	rock, err := isRockLake(c.ctx, c.view)
	c.RockLake = rock
	if err != nil {
		c.Err = err
		c.add(CodeUnread, nil, "the format version cannot be read: %v", err)
	}
	b, err := ReadBounds(c.ctx, c.view)
	c.base = b.Base
	if err != nil && !errors.Is(err, keys.ErrValue) && !errors.Is(err, keys.ErrMalformed) { // those are found by their keys
		c.Err = err
		c.add(CodeUnread, nil, "the snapshots that are kept cannot be read: %v", err)
	}
}

// isRockLake asks the envelope of the format version, or, when that is lost,
// of the first row there is.
func isRockLake(ctx context.Context, view kv.View) (bool, error) {
	raw, err := view.Get(ctx, keys.System(keys.SuffixFormatVersion))
	if err != nil {
		return false, err
	}
	if raw != nil {
		_, rock, err := keys.Open(keys.TagSystem, raw)
		return err == nil && rock, nil
	}
	for p, err := range view.Scan(ctx, []byte{0x01}, []byte{0x1D}, false) {
		if err != nil {
			return false, err
		}
		_, rock, err := keys.Open(p.Key[0], p.Value)
		return err == nil && rock, nil
	}
	return false, nil
}

// checkNewer refuses a store whose format this program does not know. One that
// has no format version, or an unreadable one, can be examined.
func checkNewer(ctx context.Context, g kv.Getter) error {
	raw, err := g.Get(ctx, keys.System(keys.SuffixFormatVersion))
	if err != nil || raw == nil {
		return err
	}
	if err := checkFormat(raw); errors.Is(err, ErrNewer) {
		return err
	}
	return nil
}
