package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
)

// InspectOptions of Inspect. The zero value asks for the newest snapshot.
type InspectOptions struct {
	Key string `json:"key,omitempty"`         // one key instead: hex, counter:snapshot, sys:writer-epoch
	At  *int64 `json:"at_snapshot,omitempty"` // another snapshot than the newest
}

// InspectResult is a catalog store in numbers, or one of its keys.
type InspectResult struct {
	Storage string
	*catalog.Summary
	Key *catalog.KeyInfo
}

// MarshalJSON writes the store's fields beside each other.
func (r *InspectResult) MarshalJSON() ([]byte, error) {
	if r.Key != nil {
		return json.Marshal(struct {
			Storage string `json:"storage"`
			*catalog.KeyInfo
		}{r.Storage, r.Key})
	}
	return json.Marshal(struct {
		Storage string `json:"storage"`
		*catalog.Summary
	}{r.Storage, r.Summary})
}

// Text is one "name: value" a line.
func (r *InspectResult) Text() string {
	if r.Key != nil {
		return r.Key.Text()
	}
	s := r.Summary
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%-22s%v\n", name+":", value) }
	line("Catalog store", r.Storage)
	kind := fmt.Sprintf("%d", s.Format)
	if s.Kind != "tarn" {
		kind += " (" + s.Kind + ")"
	}
	line("Format version", kind)
	line("Writer epoch", orWord(s.WriterEpoch, "none"))
	if s.Writer != "" {
		_, who := recordedHolder(s.Writer)
		line("Writer", who)
	}
	line("Latest snapshot ID", orWord(s.Latest, "none yet"))
	if d := s.Described; d != nil {
		if d.ID != *s.Latest {
			line("Described snapshot", d.ID)
		}
		line("Schema version", orWord(s.SchemaVersion, "none"))
		line("Snapshot time", d.Time)
		if d.Author != "" {
			line("Author", d.Author)
		}
		if d.Message != "" {
			line("Message", oneLine(d.Message))
		}
	}
	line("Next snapshot ID", orWord(s.Counters.Snapshot, unreadable))
	line("Next catalog ID", orWord(s.Counters.Catalog, unreadable))
	line("Next file ID", orWord(s.Counters.File, unreadable))
	for _, c := range s.Counters.Columns {
		line(fmt.Sprintf("Next column ID of %d", c.Table), orWord(c.Next, unreadable))
	}
	line("Schemas", s.Counts.Schemas)
	line("Tables", s.Counts.Tables)
	line("Views", s.Counts.Views)
	line("Macros", s.Counts.Macros)
	line("Columns", s.Counts.Columns)
	line("Data files", s.Counts.DataFiles)
	line("Delete files", s.Counts.DeleteFiles)
	line("Retain-from", s.Retention.From)
	for _, p := range s.Retention.Pinned {
		line("Pinned snapshot", p)
	}
	if h := s.History; h != nil {
		line("Versions", h.Versions)
		line("Base version", orDash(h.Base))
		line("Pushed version", orDash(h.Pushed))
		if h.Repairs > 0 {
			line("Repairs", h.Repairs)
		}
	}
	return b.String()
}

const unreadable = "unreadable; run: tarn verify catalog"

func orWord[T any](p *T, word string) any {
	if p == nil {
		return word
	}
	return *p
}

func orDash(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Inspect reads the store in numbers. It writes nothing.
func (s CatalogStore) Inspect(ctx context.Context, o InspectOptions) (*InspectResult, error) {
	return withView(ctx, s, func(view kv.View) (*InspectResult, error) { return inspectView(ctx, s.URL(), view, o) })
}

func inspectView(ctx context.Context, storage string, view kv.View, o InspectOptions) (*InspectResult, error) {
	r := &InspectResult{Storage: storage}
	if o.Key != "" {
		key, err := catalog.ParseKeyName(o.Key)
		if err != nil {
			return nil, err
		}
		r.Key, err = catalog.InspectKey(ctx, view, key)
		return r, err
	}
	var err error
	r.Summary, err = catalog.Inspect(ctx, view, o.At)
	return r, err
}

// InspectCatalog is CatalogStore.Inspect for the ledger of an open working
// folder.
func (w *Work) InspectCatalog(ctx context.Context, o InspectOptions) (*InspectResult, error) {
	return withLedger(ctx, w, func(storage string, view kv.View) (*InspectResult, error) {
		return inspectView(ctx, storage, view, o)
	})
}

// readTries bounds how often a store is read anew that changed while it was
// read. Only a store without -wal, which nobody has open, is read unlocked.
const readTries = 3

// withView opens the store for reading and hands its present state to f.
func withView[T any](ctx context.Context, s CatalogStore, f func(kv.View) (T, error)) (T, error) {
	var none T
	for try := 1; ; try++ {
		store, err := s.openReader(ctx)
		if err != nil {
			return none, err
		}
		view, err := store.View(ctx)
		if err != nil {
			return none, errors.Join(s.fault(err), store.Close())
		}
		out, err := f(view)
		err = errors.Join(err, view.Close(), store.Close())
		if errors.Is(err, kv.ErrChanged) && try < readTries {
			continue
		}
		if err != nil {
			return none, s.fault(err)
		}
		return out, nil
	}
}

// withLedger hands the present state of the open ledger to f. In the process
// that has the store open it is read through the writer, never a second time.
func withLedger[T any](ctx context.Context, w *Work, f func(storage string, view kv.View) (T, error)) (T, error) {
	var none T
	w.mu.Lock()
	ledger, gen := w.ledger, w.gen
	w.mu.Unlock()
	if ledger == nil {
		return none, errClosed
	}
	view, err := ledger.View(ctx)
	if err != nil {
		return none, err
	}
	at := ledgerPath(gen.Dir())
	if w.shared != nil {
		at = storeText(w.shared.place)
	}
	out, err := f(at, view)
	return out, errors.Join(err, view.Close())
}
