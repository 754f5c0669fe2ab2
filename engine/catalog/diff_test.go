package catalog_test

import (
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
)

func given(rows ...catalog.Row) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestDiff(t *testing.T) {
	w := openStore(t, filepath.Join(t.TempDir(), "c.db"))
	tab := catalog.Lookup("partition_info")
	row := func(id int64, end any) catalog.Row { return catalog.Row{id, int64(1), int64(1), end} }
	for _, step := range []struct {
		name string
		rows []catalog.Row
		want catalog.Stats
	}{
		{"all new", []catalog.Row{row(2, nil), row(4, nil), row(6, nil)}, catalog.Stats{Added: 3}},
		{"nothing", []catalog.Row{row(2, nil), row(4, nil), row(6, nil)}, catalog.Stats{Same: 3}},
		{"one ended, which history allows", []catalog.Row{row(2, nil), row(4, int64(5)), row(6, nil)}, catalog.Stats{Same: 2, Replaced: 1}},
		{"end moved, which it does not", []catalog.Row{row(2, nil), row(4, int64(7)), row(6, nil)}, catalog.Stats{Same: 2, Replaced: 1, Rewritten: 1}},
		{"revived", []catalog.Row{row(2, nil), row(4, nil), row(6, nil)}, catalog.Stats{Same: 2, Replaced: 1, Rewritten: 1}},
		{"before, between, after", []catalog.Row{row(1, nil), row(2, nil), row(3, nil), row(4, nil), row(6, nil), row(7, nil)}, catalog.Stats{Same: 3, Added: 3}},
		{"first, middle, last gone", []catalog.Row{row(2, nil), row(4, nil), row(6, nil)}, catalog.Stats{Same: 3, Removed: 3, Rewritten: 3}},
		{"all other", []catalog.Row{row(3, nil), row(5, nil)}, catalog.Stats{Added: 2, Removed: 3, Rewritten: 3}},
		{"empty", nil, catalog.Stats{Removed: 2, Rewritten: 2}},
	} {
		var b kv.Batch
		v := view(t, w)
		got, err := catalog.Diff(t.Context(), v, tab, given(step.rows...), &b)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if b.Len() != got.Added+got.Replaced+got.Removed {
			t.Errorf("%s: %d changes for %+v", step.name, b.Len(), got)
		}
		if err := w.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		stored := collect(t, catalog.AllRows(t.Context(), view(t, w), tab))
		if diff := cmp.Diff(append([]catalog.Row{}, step.rows...), stored); diff != "" {
			t.Errorf("%s: store (-want +got):\n%s", step.name, diff)
		}
	}
}

// What DuckDB leaves of CREATE TABLE and RENAME or DROP COLUMN in one
// transaction: a row that holds at no snapshot, also beside one of its key.
func TestDiffLeavesOutWhatNeverHeld(t *testing.T) {
	tab := catalog.Lookup("tag")
	row := func(begin int64, end any, value string) catalog.Row {
		return catalog.Row{int64(1), begin, end, "comment", value}
	}
	for _, rows := range [][]catalog.Row{
		{row(4, int64(4), "never"), row(4, nil, "held")},
		{row(4, nil, "held"), row(4, int64(4), "never")},
		{row(4, int64(4), "never"), row(4, int64(4), "nor this"), row(4, nil, "held")},
	} {
		w := openStore(t, filepath.Join(t.TempDir(), "c.db"))
		for _, want := range []catalog.Stats{{Added: 1}, {Same: 1}} {
			var b kv.Batch
			got, err := catalog.Diff(t.Context(), view(t, w), tab, given(append(slices.Clone(rows), row(5, int64(5), "alone"))...), &b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := w.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
		want := []catalog.Row{row(4, nil, "held")}
		if diff := cmp.Diff(want, collect(t, catalog.AllRows(t.Context(), view(t, w), tab))); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
	}
}

func TestDiffRefuses(t *testing.T) {
	w := openStore(t, filepath.Join(t.TempDir(), "c.db"))
	tag := catalog.Lookup("tag")
	row := func(key string, value any) catalog.Row { return catalog.Row{int64(1), int64(2), nil, key, value} }
	failing := func(yield func(catalog.Row, error) bool) { yield(nil, errors.ErrUnsupported) }
	for name, test := range map[string]struct {
		rows  iter.Seq2[catalog.Row, error]
		want  error
		words []string
	}{
		"two of one key": {given(row("comment", "a"), row("comment", "b")), catalog.ErrInvariant, []string{"ducklake_tag", `"comment"`, "object_id=1"}},
		"out of order":   {given(row("bb", nil), row("a", nil)), catalog.ErrInvariant, []string{"ducklake_tag", "out of order"}},
		// Length comes first: "b" is before "aa".
		"in the order of text": {given(row("aa", nil), row("b", nil)), catalog.ErrInvariant, nil},
		// NULL has the place of the empty text, and cannot share it.
		"NULL and empty":                    {given(catalog.Row{int64(1), int64(2), nil, nil, nil}, row("", nil)), catalog.ErrInvariant, nil},
		"negative id":                       {given(catalog.Row{int64(-1), int64(2), nil, "k", nil}), catalog.ErrInvariant, []string{"object_id"}},
		"too long":                          {given(row(strings.Repeat("k", 65536), nil)), catalog.ErrInvariant, []string{"65535"}},
		"too long with the rest of the key": {given(row(strings.Repeat("k", 65535), nil)), catalog.ErrInvariant, []string{"store can hold"}},
		"source fails":                      {failing, errors.ErrUnsupported, nil},
		"wrong kind of row":                 {given(catalog.Row{int64(1)}), catalog.ErrInvariant, nil},
	} {
		var b kv.Batch
		_, err := catalog.Diff(t.Context(), view(t, w), tag, test.rows, &b)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
			continue
		}
		for _, word := range test.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}
