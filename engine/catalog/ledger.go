package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
	"github.com/tarnfs/tarn/engine/outcome"
)

// FormatVersion is the format of the ledger this program writes. Opening a
// store of another version is refused by name. Part of the format:
//
//	1  first
const FormatVersion = 1

// Options of Open and Create. The zero value works.
type Options struct {
	Log *slog.Logger // nil: nothing is logged
}

// Reader reads a ledger. Its methods may be called from any goroutine.
type Reader struct {
	store kv.Store
}

// Ledger is a ledger open for writing. Writes are one at a time; each is one
// commit of the store, so that after a crash it has happened or it has not.
type Ledger struct {
	*Reader
	w   kv.Writer
	log *slog.Logger

	mu       sync.Mutex // one write at a time
	counters *counters.Cache
}

// Create starts a ledger in a store that has none. The ledger owns w from then on.
func Create(ctx context.Context, w kv.Writer, opts *Options) (*Ledger, error) {
	key := keys.System(keys.SuffixFormatVersion)
	old, err := w.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	if old != nil {
		if err := checkFormat(old); err != nil {
			return nil, fmt.Errorf("create ledger: %w", err)
		}
		return nil, fmt.Errorf("create ledger: %w", ErrExists)
	}
	var b kv.Batch
	b.Expect(key, nil)
	b.Put(key, keys.SealU32(keys.TagSystem, FormatVersion))
	if err := w.Commit(ctx, &b); err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	return Open(ctx, w, opts)
}

// Open opens the ledger in w for writing and owns w from then on. It refuses a
// ledger whose counters are missing while rows use their ids: to start them at
// 0 would give ids a second time.
func Open(ctx context.Context, w kv.Writer, opts *Options) (*Ledger, error) {
	l, err := open(ctx, w, opts)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return l, nil
}

func open(ctx context.Context, w kv.Writer, opts *Options) (*Ledger, error) {
	log := slog.New(slog.DiscardHandler)
	if opts != nil && opts.Log != nil {
		log = opts.Log
	}
	r, rockLake, err := newReader(ctx, w)
	if err != nil {
		return nil, err
	}
	if rockLake {
		return nil, errRockLake()
	}
	view, err := w.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if err := checkCountersPresent(ctx, view); err != nil && !mutant.Is(mutant.DesyncOpened) {
		return nil, err
	}
	cache, err := counters.Load(ctx, view)
	if err != nil {
		return nil, damaged(err, "a counter of the catalog store cannot be read")
	}
	return &Ledger{Reader: r, w: w, log: log, counters: cache}, nil
}

// OpenReader reads the ledger in store, which stays the caller's. RockLake's
// catalogs are read too, as far as their rows are DuckLake's.
func OpenReader(ctx context.Context, store kv.Store) (*Reader, error) {
	r, _, err := newReader(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("open ledger for reading: %w", err)
	}
	return r, nil
}

func newReader(ctx context.Context, store kv.Store) (*Reader, bool, error) {
	raw, err := store.Get(ctx, keys.System(keys.SuffixFormatVersion))
	if err != nil {
		return nil, false, err
	}
	if raw == nil {
		return nil, false, ErrNotInitialized
	}
	if err := checkFormat(raw); err != nil {
		return nil, false, err
	}
	_, rockLake, err := keys.OpenU32(keys.TagSystem, raw)
	return &Reader{store: store}, rockLake, err
}

// repairHint is what to do about a counter that is missing or unreadable.
const repairHint = "run: tarn repair --dry-run"

func checkFormat(raw []byte) error {
	n, _, err := keys.OpenU32(keys.TagSystem, raw)
	if err != nil {
		return damaged(fmt.Errorf("%w: %w", ErrFormat, err), "the format version of the catalog store cannot be read")
	}
	if n > FormatVersion && !mutant.Is(mutant.FormatUnread) {
		return outcome.Mark(outcome.Refused, fmt.Sprintf("the catalog store has format %d, this tarn knows up to %d", n, FormatVersion), ErrNewer,
			"use the tarn that wrote it, or a newer one")
	}
	if n != FormatVersion && !mutant.Is(mutant.FormatUnread) {
		return damaged(ErrFormat, "the catalog store has format %d, which no tarn wrote", n)
	}
	return nil
}

// checkCountersPresent refuses a global counter that is absent while a table
// whose ids it issues has a row. One seek a table.
func checkCountersPresent(ctx context.Context, view kv.View) error {
	for _, d := range counters.Domains() {
		_, found, err := counters.Read(ctx, view, d.Key())
		if err != nil {
			return outcome.Wrap(outcome.Damaged, fmt.Sprintf("counter %v of the catalog store cannot be read", d), fmt.Errorf("%w: %w", ErrDesync, err), repairHint)
		}
		if found {
			continue
		}
		for _, t := range Tables {
			if !t.issues(d) {
				continue
			}
			any, err := hasRows(ctx, view, t)
			if err != nil {
				return err
			}
			if any {
				return outcome.Mark(outcome.Damaged, fmt.Sprintf("counter %v is missing, but %s has rows", d, t.SQLName()), ErrDesync, repairHint)
			}
		}
	}
	return nil
}

func hasRows(ctx context.Context, view kv.View, t *Table) (bool, error) {
	for _, err := range view.Scan(ctx, t.prefix(), keys.After(t.prefix()), false) {
		return err == nil, err
	}
	return false, nil
}

// View pins the ledger as it is now; the caller closes it.
func (r *Reader) View(ctx context.Context) (kv.View, error) { return r.store.View(ctx) }

// Store is the store the ledger is in.
func (r *Reader) Store() kv.Store { return r.store }

// Next is the next id of a global counter: the least one that new rows may use.
func (l *Ledger) Next(ctx context.Context, d counters.Domain) (uint64, error) {
	return l.counters.Next(ctx, l.store, d)
}

// NextColumn is the next column id of a table.
func (l *Ledger) NextColumn(ctx context.Context, table uint64) (uint64, error) {
	n, _, err := counters.Read(ctx, l.store, keys.CounterColumn(table))
	return n, err
}

// Close closes the store. It may be called twice.
func (l *Ledger) Close() error { return l.w.Close() }

// commit runs f on an empty batch and commits it.
func (l *Ledger) commit(ctx context.Context, what string, f func(*kv.Batch) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b kv.Batch
	err := f(&b)
	if err == nil {
		err = l.w.Commit(ctx, &b)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
