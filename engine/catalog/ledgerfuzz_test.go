package catalog_test

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
)

// memory is a store in memory that holds pairs by key, for reading.
type memory []kv.KV

func (p memory) Get(_ context.Context, key []byte) ([]byte, error) {
	if i, ok := p.find(key); ok {
		return bytes.Clone(p[i].Value), nil
	}
	return nil, nil
}

func (p memory) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(p, key, func(x kv.KV, k []byte) int { return bytes.Compare(x.Key, k) })
}

func (p memory) Scan(_ context.Context, start, end []byte, reverse bool) iter.Seq2[kv.KV, error] {
	return func(yield func(kv.KV, error) bool) {
		from, to := 0, len(p)
		if start != nil {
			from, _ = p.find(start)
		}
		if end != nil {
			to, _ = p.find(end)
		}
		for n := range max(to-from, 0) {
			i := from + n
			if reverse {
				i = to - 1 - n
			}
			if !yield(kv.KV{Key: bytes.Clone(p[i].Key), Value: bytes.Clone(p[i].Value)}, nil) {
				return
			}
		}
	}
}

func (p memory) View(context.Context) (kv.View, error) { return p, nil }
func (p memory) Close() error                          { return nil }

// FuzzLedger puts one pair of any bytes into a whole ledger, or takes one away:
// nothing panics, verify ends, and what it finds nothing wrong with can be read.
func FuzzLedger(f *testing.F) {
	w := filled(f)
	v := view(f, w)
	var whole memory
	for p, err := range v.Scan(f.Context(), nil, nil, false) {
		if err != nil {
			f.Fatal(err)
		}
		whole = append(whole, p)
	}
	for i, p := range whole {
		if i%7 == 0 {
			f.Add(p.Key, p.Value, false)
			f.Add(p.Key, []byte{}, true)
			f.Add(p.Key[:len(p.Key)-1], p.Value, false)
			f.Add(p.Key, whole[(i+1)%len(whole)].Value, false)
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte, remove bool) {
		if len(key) == 0 || len(key) > kv.MaxKey {
			return // no store holds one
		}
		p := slices.Clone(whole)
		switch i, ok := p.find(key); {
		case ok && remove:
			p = slices.Delete(p, i, i+1)
		case ok:
			p[i] = kv.KV{Key: key, Value: value}
		case !remove:
			p = slices.Insert(p, i, kv.KV{Key: key, Value: value})
		}
		findings := catalog.Check(t.Context(), p)
		for _, f := range findings {
			if f.Message == "" || strings.Contains(f.String(), "%!") {
				t.Errorf("finding without words: %q", f)
			}
		}
		err := readPairs(t.Context(), p)
		if severe := slices.ContainsFunc(findings, catalog.Finding.Severe); err != nil && !severe {
			t.Errorf("verify finds nothing wrong, but %v", err)
		}
	})
}

func readPairs(ctx context.Context, p memory) error {
	r, err := catalog.OpenReader(ctx, p)
	if err != nil {
		return err
	}
	if _, err := r.Base(ctx); err != nil {
		return err
	}
	if _, err := r.Unpushed(ctx); err != nil {
		return err
	}
	bounds, err := catalog.ReadBounds(ctx, p)
	if err != nil {
		return err
	}
	for _, t := range catalog.Tables {
		for _, err := range catalog.AllRows(ctx, p, t) {
			if err != nil {
				return err
			}
		}
		for _, err := range catalog.Rows(ctx, p, t, bounds.Latest) {
			if err != nil {
				return err
			}
		}
	}
	return nil
}
