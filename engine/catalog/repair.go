package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Advance is a counter that has fallen behind, is missing or cannot be read,
// and what it must be.
type Advance struct {
	Counter  string
	Key      []byte
	Current  *uint64 // nil: missing or unreadable
	MaxID    *uint64 // greatest id in a row; nil: no row has one
	Proposed uint64  // greatest id + 1, or what DuckLake says is next when that is more
}

func (a Advance) equal(b Advance) bool {
	same := func(x, y *uint64) bool { return (x == nil) == (y == nil) && (x == nil || *x == *y) }
	return a.Counter == b.Counter && bytes.Equal(a.Key, b.Key) && same(a.Current, b.Current) && same(a.MaxID, b.MaxID) && a.Proposed == b.Proposed
}

// AuditEntry records one repair in the store, under FF "tarn-audit:" and its
// number, from 1, in the same commit as what it changed.
type AuditEntry struct {
	At      time.Time     `json:"at"`
	By      string        `json:"by,omitempty"` // program and user
	Changes []AuditChange `json:"changes"`
}

// AuditChange is one counter that a repair has set.
type AuditChange struct {
	Counter string  `json:"counter"`
	Key     string  `json:"key"`           // hex
	Was     *string `json:"was,omitempty"` // value in hex, as it stood there; nil: it was missing
	Now     uint64  `json:"now"`
}

// PlanRepair finds the counters that repair would set. It changes nothing. The
// same store gives the same plan. A store that cannot be read to its end has
// none: the greatest id might be in the part that is lost.
func PlanRepair(ctx context.Context, view kv.View) []Advance {
	return Examine(ctx, view, time.Time{}).Plan()
}

// Plan is what PlanRepair makes of an examination.
func (x *Examination) Plan() []Advance {
	if x.Err != nil && !mutant.Is(mutant.RepairHalf) {
		return nil
	}
	var plan []Advance
	for _, f := range x.Findings {
		if f.Repair != nil {
			plan = append(plan, *f.Repair)
		}
	}
	return plan
}

// RepairOptions of RepairWith; nil and the zero value work.
type RepairOptions struct {
	// Plan is what was shown beforehand: a repair that would do anything else
	// is refused with ErrPlanChanged. Nil: whatever is needed.
	Plan []Advance
	By   string    // who repairs, for the audit entry
	At   time.Time // when; zero: now
}

// Repair is RepairWith without options.
func Repair(ctx context.Context, w kv.Writer) ([]Advance, error) { return RepairWith(ctx, w, nil) }

// RepairWith sets the counters that are missing, unreadable or behind the
// rows, all in one commit together with an audit entry, and says which. It
// never lowers a counter that can be read and touches no row. It works on the
// store below a Ledger, because Open refuses a store whose counters are
// missing. The writer's fence holds for the commit; a commit between plan and
// repair is kv.ErrConflict, and nothing is done.
func RepairWith(ctx context.Context, w kv.Writer, o *RepairOptions) ([]Advance, error) {
	plan, err := repair(ctx, w, o)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	return plan, nil
}

func repair(ctx context.Context, w kv.Writer, o *RepairOptions) ([]Advance, error) {
	if o == nil {
		o = &RepairOptions{}
	}
	view, err := w.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if err := checkNewer(ctx, view); err != nil {
		return nil, err
	}
	x := Examine(ctx, view, time.Time{})
	if x.RockLake {
		return nil, errRockLake()
	}
	if x.Err != nil && !mutant.Is(mutant.RepairHalf) {
		return nil, outcome.Wrap(outcome.Damaged, "the catalog store cannot be read to its end, so nothing is repaired", x.Err, "restore it from a copy")
	}
	plan := x.Plan()
	if o.Plan != nil && !slices.EqualFunc(plan, o.Plan, Advance.equal) {
		return nil, outcome.Mark(outcome.Busy, "the catalog store changed since the repairs were planned; nothing was written", ErrPlanChanged, "look again: tarn repair --dry-run")
	}
	if len(plan) == 0 {
		return nil, nil
	}
	b, err := repairBatch(ctx, view, plan, o)
	if err != nil {
		return nil, err
	}
	if mutant.Is(mutant.RepairSplit) {
		return plan, repairSplit(ctx, w, plan, o)
	}
	return plan, w.Commit(ctx, b)
}

func repairBatch(ctx context.Context, view kv.View, plan []Advance, o *RepairOptions) (*kv.Batch, error) {
	b := new(kv.Batch)
	entry := AuditEntry{At: o.At, By: o.By}
	if entry.At.IsZero() {
		entry.At = time.Now()
	}
	entry.At = entry.At.UTC()
	for _, a := range plan {
		old, err := view.Get(ctx, a.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Counter, err)
		}
		if !mutant.Is(mutant.RepairUnexpected) {
			b.Expect(a.Key, old)
		}
		b.Put(a.Key, keys.SealU64(keys.TagCounter, a.Proposed))
		change := AuditChange{Counter: a.Counter, Key: fmt.Sprintf("%x", a.Key), Now: a.Proposed}
		if old != nil {
			was := fmt.Sprintf("%x", old)
			change.Was = &was
		}
		entry.Changes = append(entry.Changes, change)
	}
	// The newest snapshot must still be the newest: a commit in between would
	// have brought ids the plan does not know.
	if !mutant.Is(mutant.RepairUnexpected) {
		if err := expectNewestSnapshot(ctx, view, b); err != nil {
			return nil, err
		}
	}
	last, err := lastAudit(ctx, view)
	if err != nil {
		return nil, err
	}
	key := keys.Audit(last + 1)
	b.Expect(key, nil)
	return b, putJSON(b, key, entry)
}

func expectNewestSnapshot(ctx context.Context, view kv.View, b *kv.Batch) error {
	next := int64(0)
	for p, err := range view.Scan(ctx, snapshotTable.prefix(), keys.After(snapshotTable.prefix()), true) {
		if err != nil {
			return err
		}
		b.Expect(p.Key, p.Value)
		if len(p.Key) == 9 {
			next = int64(binary.BigEndian.Uint64(p.Key[1:])) + 1
		}
		break
	}
	key, err := snapshotTable.KeyOf(nil, snapshotKeyRow(next))
	if err != nil {
		return nil // the greatest number there is: nothing can come after it
	}
	b.Expect(key, nil)
	return nil
}

// Audit gives the repairs of this store, oldest first.
func (r *Reader) Audit(ctx context.Context) ([]AuditEntry, error) {
	return readAt(ctx, r, "read repairs", func(ctx context.Context, v kv.View) ([]AuditEntry, error) {
		list := []AuditEntry{}
		prefix := keys.System(keys.SuffixAudit)
		for p, err := range v.Scan(ctx, prefix, keys.After(prefix), false) {
			if err != nil {
				return nil, err
			}
			var e AuditEntry
			if err := openJSON(p.Key, p.Value, &e); err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		return list, nil
	})
}

func lastAudit(ctx context.Context, view kv.View) (uint64, error) {
	prefix := keys.System(keys.SuffixAudit)
	for p, err := range view.Scan(ctx, prefix, keys.After(prefix), true) {
		if err != nil {
			return 0, err
		}
		if len(p.Key) == len(prefix)+8 {
			return binary.BigEndian.Uint64(p.Key[len(prefix):]), nil
		}
	}
	return 0, nil
}

// Repair is RepairWith for a ledger that is open. Its counters are read again
// afterwards.
func (l *Ledger) Repair(ctx context.Context, o *RepairOptions) ([]Advance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	plan, err := RepairWith(ctx, l.w, o)
	l.counters.Forget() // also after an error: the commit may have happened
	return plan, err
}

func errRockLake() error {
	return outcome.Mark(outcome.Refused, "a RockLake catalog can be read, not written", ErrFormat, "look at it with tarn inspect and tarn verify catalog")
}
