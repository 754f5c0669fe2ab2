package repo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// MergeEdits does to theirs what leads from base to ours, in the fields of
// dataset.json that people edit, each as a whole. conflicts names the fields
// that both sides changed and not alike; then the result means nothing. Tables
// and views are those of theirs: the commit computes them.
func MergeEdits(base, ours, theirs *Dataset) (merged *Dataset, conflicts []string, err error) {
	fields := func(d *Dataset) (map[string]json.RawMessage, error) {
		edited := *d
		edited.Tables, edited.Views = nil, nil
		b, err := edited.Encode()
		if err != nil {
			return nil, err
		}
		out := map[string]json.RawMessage{}
		if err := json.Unmarshal(b, &out); err != nil {
			return nil, fmt.Errorf("read back dataset.json: %w", err)
		}
		delete(out, "tables")
		delete(out, "views")
		return out, nil
	}
	was, err := fields(base)
	if err != nil {
		return nil, nil, err
	}
	our, err := fields(ours)
	if err != nil {
		return nil, nil, err
	}
	their, err := fields(theirs)
	if err != nil {
		return nil, nil, err
	}
	names := map[string]bool{}
	for _, m := range []map[string]json.RawMessage{was, our, their} {
		for name := range m {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		w, o, t := was[name], our[name], their[name]
		switch {
		case bytes.Equal(w, o), bytes.Equal(o, t):
		case bytes.Equal(w, t):
			if o == nil {
				delete(their, name)
			} else {
				their[name] = o
			}
		default:
			conflicts = append(conflicts, name)
		}
	}
	b, err := json.Marshal(their)
	if err != nil {
		return nil, nil, fmt.Errorf("merge dataset.json: %w", err)
	}
	if merged, err = DecodeDataset(b); err != nil {
		return nil, nil, err
	}
	merged.Tables, merged.Views = theirs.Tables, theirs.Views
	return merged, conflicts, nil
}
