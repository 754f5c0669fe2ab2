package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// RowSource gives all rows of a table of a working catalog, retired ones
// included, in the order of their keys (OrderBy). All tables must be read at
// one moment.
type RowSource func(*Table) iter.Seq2[Row, error]

// Report says what an import did.
type Report struct {
	Tables   map[string]Stats // by table name, those that changed
	Total    Stats
	Latest   int64  // newest snapshot of the working catalog
	Sequence uint64 // of the journal entry, 0 when there is none
}

// Import is the commit point. It makes the store equal to a working catalog
// and enters the version in the journal, in one commit of the store that
// holds: changed rows, deletes of vanished rows, counters, the journal entry,
// and base = the version. Counters become max(own, DuckLake's next, greatest
// id in a row + 1), and so never fall.
//
// Refused, with nothing written: a working catalog that lacks the ledger's
// newest snapshot (ErrBehind) or has another one under its number
// (ErrDiverged), rows that break an invariant (ErrInvariant), a version that is
// in the journal (ErrJournaled). A fenced ledger is kv.ErrFenced, whatever else
// there is to say. After kv.ErrUnknown open the store again and
// look for the version with Entry.
func (l *Ledger) Import(ctx context.Context, rows RowSource, entry JournalEntry) (Report, error) {
	return l.ImportAfter(ctx, rows, entry, nil)
}

// ImportAfter is Import with a last step before the commit point: when all
// rows have been read and compared, ready ends the transaction they were read
// in. Its error stops the import, with nothing written.
func (l *Ledger) ImportAfter(ctx context.Context, rows RowSource, entry JournalEntry, ready func() error) (Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report, err := l.enter(ctx, rows, func(view kv.View, report *Report, b *kv.Batch) error {
		if entry.ID == "" {
			return fmt.Errorf("%w: a journal entry needs an ID", ErrNoEntry)
		}
		if entry.Snapshot != report.Latest {
			return refuse(ErrInvariant, "", "version %s is of snapshot %d, but the working catalog is at %d", entry.ID, entry.Snapshot, report.Latest)
		}
		switch _, err := sequenceOf(ctx, view, entry.ID); {
		case err == nil:
			return fmt.Errorf("%w: %s", ErrJournaled, entry.ID)
		case !errors.Is(err, ErrNoEntry):
			return err
		}
		last, err := lastSequence(ctx, view)
		if err != nil {
			return err
		}
		report.Sequence = last + 1
		entry.Replaced = max(entry.Replaced, report.Total.Rewritten)
		if err := appendJournal(b, report.Sequence, entry); err != nil {
			return err
		}
		if err := putJSON(b, keys.System(keys.SuffixBase), Base{Version: entry.ID, Snapshot: entry.Snapshot}); err != nil || ready == nil {
			return err
		}
		return ready()
	})
	if err != nil {
		return Report{}, fmt.Errorf("enter version %s in the ledger: %w", entry.ID, err)
	}
	l.log.InfoContext(ctx, "version entered in the ledger", "version", entry.ID, "snapshot", entry.Snapshot,
		"added", report.Total.Added, "replaced", report.Total.Replaced, "removed", report.Total.Removed)
	return report, nil
}

// Start is what a generation begins with.
type Start struct {
	Base    Base           // version the rows are of, and its newest snapshot: the lowest the store will answer for
	Journal []JournalEntry // versions carried over that are not pushed, oldest first
	Pushed  string         // last published version; "": Base.Version when there is no Journal, else the parent of its first
}

// Adopt fills an empty ledger with the rows of a version: checkout, reset,
// pull and takeover begin a generation with it. One commit, as Import.
func (l *Ledger) Adopt(ctx context.Context, rows RowSource, start Start) (Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report, err := l.enter(ctx, rows, func(view kv.View, report *Report, b *kv.Batch) error {
		if start.Base.Snapshot != report.Latest {
			return refuse(ErrInvariant, "", "version %s is of snapshot %d, but the catalog is at %d", start.Base.Version, start.Base.Snapshot, report.Latest)
		}
		if report.Total.Replaced+report.Total.Removed+report.Total.Same > 0 {
			return fmt.Errorf("%w: the store has rows", ErrExists)
		}
		for i, e := range start.Journal {
			if err := appendJournal(b, uint64(i+1), e); err != nil {
				return err
			}
			report.Sequence = uint64(i + 1)
		}
		pushed := start.Pushed
		switch {
		case pushed != "":
		case len(start.Journal) > 0:
			pushed = start.Journal[0].Parent
		default:
			pushed = start.Base.Version
		}
		if pushed != "" {
			if err := putJSON(b, keys.System(keys.SuffixPushed), pushedMark{Version: pushed}); err != nil {
				return err
			}
		}
		b.Put(keys.System(keys.SuffixRetainFrom), keys.SealU64(keys.TagSystem, uint64(start.Base.Snapshot)))
		return putJSON(b, keys.System(keys.SuffixBase), start.Base)
	})
	if err != nil {
		return Report{}, fmt.Errorf("begin a generation with version %s: %w", start.Base.Version, err)
	}
	return report, nil
}

// enter compares all tables, lets finish add to the batch, and commits. The
// caller holds mu.
func (l *Ledger) enter(ctx context.Context, rows RowSource, finish func(kv.View, *Report, *kv.Batch) error) (Report, error) {
	report := Report{Tables: map[string]Stats{}, Latest: -1}
	view, err := l.w.View(ctx)
	if err != nil {
		return report, err
	}
	defer view.Close()
	tx, err := l.counters.Begin(ctx, view)
	if err != nil {
		return report, err
	}
	var b kv.Batch
	seen := newIDs()
	if err := l.compare(ctx, view, rows, seen, &report, &b); err != nil {
		return report, l.fencedOr(ctx, err)
	}
	if report.Latest < 0 {
		return report, broken(snapshotTable, "no snapshot")
	}
	if err := seen.raise(ctx, tx); err != nil {
		return report, refuse(err, "", "the ids of the working catalog are used up")
	}
	if err := finish(view, &report, &b); err != nil {
		return report, l.fencedOr(ctx, err)
	}
	if mutant.Is(mutant.CommitSplit) {
		if err := l.w.Commit(ctx, &b); err != nil {
			return report, err
		}
		b = kv.Batch{}
	}
	tx.Stage(&b)
	err = l.w.Commit(ctx, &b)
	tx.Done(err)
	return report, err
}

// fencedOr is err, unless the ledger is fenced: what the working catalog then
// seems to contradict is the work of the new writer, and to be told to reset
// would be wrong. A commit of nothing asks the store.
func (l *Ledger) fencedOr(ctx context.Context, err error) error {
	other := errors.Is(err, ErrBehind) || errors.Is(err, ErrDiverged) || errors.Is(err, ErrJournaled) || errors.Is(err, ErrExists)
	if !other || mutant.Is(mutant.FenceLast) {
		return err
	}
	if fence := l.w.Commit(ctx, &kv.Batch{}); errors.Is(fence, kv.ErrFenced) {
		return fence
	}
	return err
}

// compare runs Diff over the tables, and checks on the way that the working
// catalog continues the ledger's history, once there is a version in it.
func (l *Ledger) compare(ctx context.Context, view kv.View, rows RowSource, seen *ids, report *Report, b *kv.Batch) error {
	bounds, err := ReadBounds(ctx, view)
	if err != nil {
		return err
	}
	var base Base
	if _, err := getJSON(ctx, view, keys.System(keys.SuffixBase), &base); err != nil {
		return fmt.Errorf("read base: %w", err)
	}
	for _, t := range Tables {
		known := false // the ledger's newest snapshot is among the rows
		watched := func(yield func(Row, error) bool) {
			for row, err := range rows(t) {
				if err == nil && len(row) == len(t.Columns) {
					seen.see(t, row)
					if s, ok := row[0].(int64); ok && t == snapshotTable {
						report.Latest = max(report.Latest, s)
						known = known || s == bounds.Latest
					}
				}
				if !yield(row, err) {
					return
				}
			}
		}
		before := b.Len()
		stats, err := Diff(ctx, view, t, watched, b)
		if err != nil {
			return err
		}
		if stats.Changed() {
			report.Tables[t.Name] = stats
		}
		report.Total.add(stats)
		if t != snapshotTable || !bounds.Any || base.Version == "" {
			continue // nothing is committed yet that another history would contradict
		}
		if !known {
			return refuse(ErrBehind, "tarn reset makes a new working catalog from the ledger", "the working catalog lacks snapshot %d", bounds.Latest)
		}
		newest, err := t.KeyOf(nil, snapshotKeyRow(bounds.Latest))
		if err != nil {
			return err
		}
		for _, op := range b.Ops()[before:] {
			if string(op.Key) == string(newest) {
				return refuse(ErrDiverged, "tarn reset makes a new working catalog from the ledger", "snapshot %d of the working catalog is another one than the ledger's", bounds.Latest)
			}
		}
	}
	return nil
}

// snapshotKeyRow is a row with only what the key needs.
func snapshotKeyRow(s int64) Row {
	row := make(Row, len(snapshotTable.Columns))
	row[0] = s
	return row
}
