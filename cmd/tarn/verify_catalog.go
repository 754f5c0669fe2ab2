package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tarnfs/tarn/engine/outcome"
)

// runVerifyCatalog is `tarn verify catalog`: a finding of the store itself is
// the outcome, a warning is only printed.
func runVerifyCatalog(ctx context.Context, k *call, where catalogOptions) error {
	u, err := k.findCatalog(ctx, where)
	if err != nil {
		return err
	}
	d, err := u.VerifyCatalog(ctx)
	if err != nil {
		return err
	}
	if err := k.show(d); err != nil {
		return err
	}
	var r struct {
		Summary struct {
			Errors int `json:"errors"`
		} `json:"summary"`
	}
	if err := fields(d, &r); err != nil {
		return err
	}
	if r.Summary.Errors > 0 {
		return outcome.New(outcome.Difference, "faults were found", "")
	}
	return nil
}

// fields reads what a document has in its JSON form, which is all there is of
// one that a daemon made.
func fields(d document, into any) error {
	b, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	return nil
}
