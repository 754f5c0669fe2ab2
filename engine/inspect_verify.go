package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/outcome"
)

func ledgerPath(dir string) string { return filepath.Join(dir, ledgerName) }

// CatalogFinding is one finding of verify catalog.
type CatalogFinding struct {
	Code     string `json:"code"`
	Category string `json:"category"`
	Key      string `json:"key,omitempty"` // hex
	Message  string `json:"message"`
	// Repairable: tarn repair sets what is wrong.
	Repairable bool           `json:"repairable"`
	Action     string         `json:"repair_action,omitempty"`
	Details    *CounterRepair `json:"repair_details,omitempty"`
}

// CounterRepair is a counter, and what repair sets it to.
type CounterRepair struct {
	Counter  string  `json:"counter"`
	Key      string  `json:"key"`              // hex
	Current  *uint64 `json:"current"`          // null: missing or unreadable
	MaxID    *uint64 `json:"max_id,omitempty"` // greatest id in a row
	Proposed uint64  `json:"proposed"`
}

// rockLakeKind is the kind of a catalog that is read and never written.
const rockLakeKind = "rocklake"

const advanceCounter = "advance_counter"

func counterRepair(a catalog.Advance) CounterRepair {
	return CounterRepair{Counter: a.Counter, Key: hex.EncodeToString(a.Key), Current: a.Current, MaxID: a.MaxID, Proposed: a.Proposed}
}

func (c CounterRepair) text() string {
	now := "missing or unreadable"
	if c.Current != nil {
		now = fmt.Sprint(*c.Current)
	}
	return fmt.Sprintf("%s (key %s): %s -> %d", c.Counter, c.Key, now, c.Proposed)
}

// CatalogReport is what verify catalog found. Its JSON form is part of the
// interface.
type CatalogReport struct {
	Storage  string           `json:"storage"`
	Kind     string           `json:"kind"`     // "tarn" or "rocklake"
	Snapshot *int64           `json:"snapshot"` // newest; null: none yet
	Millis   int64            `json:"duration_ms"`
	Errors   []CatalogFinding `json:"errors"`
	Warnings []CatalogFinding `json:"warnings"`
	Summary  CatalogTotals    `json:"summary"`
}

// CatalogTotals are the numbers of a CatalogReport.
type CatalogTotals struct {
	Errors   int   `json:"errors"`
	Warnings int   `json:"warnings"`
	Rows     int64 `json:"rows_checked"` // pairs of the store
}

// Text is a line for each finding, and one for the whole.
func (r *CatalogReport) Text() string {
	var b strings.Builder
	writeFindings(&b, r.Errors)
	writeFindings(&b, r.Warnings)
	at := "no snapshot yet"
	if r.Snapshot != nil {
		at = fmt.Sprintf("newest snapshot %d", *r.Snapshot)
	}
	if len(r.Errors) == 0 {
		fmt.Fprintf(&b, "%s is whole: %d rows, %s", r.Storage, r.Summary.Rows, at)
		if len(r.Warnings) > 0 {
			fmt.Fprintf(&b, ", %s", plural(len(r.Warnings), "warning"))
		}
		b.WriteByte('\n')
		return b.String()
	}
	fmt.Fprintf(&b, "%s has %s in %d rows", r.Storage, plural(len(r.Errors), "error"), r.Summary.Rows)
	if r.Kind == rockLakeKind {
		b.WriteString(": repair them with RockLake\n")
	} else if n := repairable(r.Errors); n == len(r.Errors) {
		b.WriteString(": tarn repair --dry-run shows how to mend them\n")
	} else if n > 0 {
		fmt.Fprintf(&b, ": tarn repair --dry-run shows how to mend %d of them\n", n)
	} else {
		b.WriteString(": restore the store from a copy, or check the branch out again\n")
	}
	return b.String()
}

func writeFindings(b *strings.Builder, list []CatalogFinding) {
	for _, f := range list {
		fmt.Fprintf(b, "%s %s", f.Code, oneLine(f.Message))
		if f.Key != "" {
			fmt.Fprintf(b, " (key %s)", f.Key)
		}
		b.WriteByte('\n')
	}
}

func repairable(list []CatalogFinding) int {
	n := 0
	for _, f := range list {
		if f.Repairable {
			n++
		}
	}
	return n
}

// Verify examines the store. What it finds is in the report, not in the error.
// It writes nothing.
func (s CatalogStore) Verify(ctx context.Context) (*CatalogReport, error) {
	return withView(ctx, s, func(view kv.View) (*CatalogReport, error) { return verifyView(ctx, s.URL(), view) })
}

// VerifyCatalog is CatalogStore.Verify for the ledger of an open working folder.
func (w *Work) VerifyCatalog(ctx context.Context) (*CatalogReport, error) {
	return withLedger(ctx, w, func(storage string, view kv.View) (*CatalogReport, error) {
		return verifyView(ctx, storage, view)
	})
}

func verifyView(ctx context.Context, storage string, view kv.View) (*CatalogReport, error) {
	r, _, err := examineView(ctx, storage, view)
	return r, err
}

func examineView(ctx context.Context, storage string, view kv.View) (*CatalogReport, *catalog.Examination, error) {
	if err := catalog.Openable(ctx, view); err != nil {
		return nil, nil, err
	}
	start := time.Now()
	x := catalog.Examine(ctx, view, start)
	if err := ctx.Err(); err != nil {
		return nil, nil, outcome.Wrap(outcome.Interrupted, "verify catalog", err, "run it again")
	}
	if errors.Is(x.Err, kv.ErrChanged) {
		return nil, nil, x.Err
	}
	r := &CatalogReport{Storage: storage, Kind: "tarn", Errors: []CatalogFinding{}, Warnings: []CatalogFinding{}}
	if x.RockLake {
		r.Kind = rockLakeKind
	}
	if x.Latest >= 0 {
		r.Snapshot = &x.Latest
	}
	for _, f := range x.Findings {
		if out := findingOf(f, x.RockLake); f.Severe() {
			r.Errors = append(r.Errors, out)
		} else {
			r.Warnings = append(r.Warnings, out)
		}
	}
	r.Summary = CatalogTotals{Errors: len(r.Errors), Warnings: len(r.Warnings), Rows: x.Pairs}
	r.Millis = time.Since(start).Milliseconds()
	return r, x, nil
}

func findingOf(f catalog.Finding, rockLake bool) CatalogFinding {
	out := CatalogFinding{Code: f.Code, Category: catalog.Categories[f.Code], Key: f.Key, Message: f.Message}
	if f.Repair != nil {
		details := counterRepair(*f.Repair)
		out.Details = &details
		if !rockLake {
			out.Repairable, out.Action = true, advanceCounter
		}
	}
	return out
}
