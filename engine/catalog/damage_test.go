package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/catalog/catalogtest"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
	"github.com/tarnfs/tarn/engine/outcome"
)

// whole is the file of a ledger of some hundred pairs, and the pairs in it.
func whole(t *testing.T) (file []byte, pairs map[string]string) {
	t.Helper()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "catalog.db")
	w := openStore(t, path)
	if err := catalogtest.Fill(ctx, w, 500); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, w)
	v := view(t, l)
	world, err := catalogtest.Read(ctx, v, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := world.Begin(ctx, l); err != nil {
			t.Fatal(err)
		}
		if _, err := world.Step(rand.New(rand.NewPCG(3, uint64(i)))); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Import(ctx, world.Source, catalog.JournalEntry{ID: fmt.Sprintf("version-%d", i), Snapshot: world.Latest()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if pairs, err = readEverything(ctx, path); err != nil {
		t.Fatal(err)
	}
	return file, pairs
}

// place is a file with these bytes.
func place(t *testing.T, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readEverything reads a file in each way there is. The pairs are those of a
// scan; one that a Get does not find, or finds otherwise, is an error here.
func readEverything(ctx context.Context, path string) (map[string]string, error) {
	s, err := sqlitekv.OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := catalog.OpenReader(ctx, s)
	if err != nil {
		return nil, err
	}
	v, err := r.View(ctx)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	pairs := map[string]string{}
	for p, err := range v.Scan(ctx, nil, nil, false) {
		if err != nil {
			return nil, err
		}
		pairs[string(p.Key)] = string(p.Value)
	}
	for _, t := range catalog.Tables {
		for _, err := range catalog.AllRows(ctx, v, t) {
			if err != nil {
				return nil, err
			}
		}
	}
	if _, err := r.Journal(ctx); err != nil {
		return nil, err
	}
	if _, err := r.Unpushed(ctx); err != nil {
		return nil, err
	}
	bounds, err := catalog.ReadBounds(ctx, v)
	if err != nil {
		return nil, err
	}
	for _, err := range catalog.Rows(ctx, v, catalog.Lookup("data_file"), bounds.Latest) {
		if err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// examined is the first thing that verify says against a file that reads well.
func examined(ctx context.Context, path string) error {
	s, err := sqlitekv.OpenReader(ctx, path)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := s.View(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	for _, f := range catalog.Check(ctx, v) {
		if f.Severe() {
			return errors.New(f.String())
		}
	}
	return nil
}

// wantTold checks that an error is one a person can use: it says that the file
// is damaged or no ledger, and names it or the key.
func wantTold(t *testing.T, what, path string, err error) {
	t.Helper()
	kind := outcome.Of(err) == outcome.Damaged || errors.Is(err, kv.ErrCorrupt) || errors.Is(err, catalog.ErrNotInitialized) ||
		errors.Is(err, catalog.ErrValue) || errors.Is(err, keys.ErrValue) || errors.Is(err, keys.ErrValueVersion) || errors.Is(err, keys.ErrMalformed)
	named := strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "key") || strings.Contains(err.Error(), "catalog store") || errors.Is(err, catalog.ErrNotInitialized)
	if !kind || !named {
		t.Errorf("%s: %v", what, err)
	}
}

// A ledger of which a part is missing, however much, is never taken for one.
func TestTruncatedLedger(t *testing.T) {
	file, _ := whole(t)
	lengths := map[int]bool{0: true, 1: true, 15: true, 16: true, 99: true, 100: true, 101: true, len(file) - 1: true}
	for n := 4096; n <= len(file); n += 4096 {
		for _, m := range []int{n - 1, n, n + 1, n + 512, n - 2048} {
			if m < len(file) {
				lengths[m] = true
			}
		}
	}
	for n := range lengths {
		path := place(t, file[:n])
		_, err := readEverything(t.Context(), path)
		if err == nil {
			t.Errorf("the first %d of %d bytes are read as a ledger", n, len(file))
			continue
		}
		wantTold(t, fmt.Sprintf("%d bytes", n), path, err)
		w, err := sqlitekv.OpenWriter(t.Context(), path, nil)
		if err == nil {
			if _, err = catalog.Open(t.Context(), w, nil); err == nil {
				if _, err = readEverything(t.Context(), path); err == nil {
					t.Errorf("the first %d of %d bytes are opened for writing", n, len(file))
				}
			}
			w.Close()
		}
		if err != nil {
			wantTold(t, fmt.Sprintf("%d bytes, for writing", n), path, err)
		}
	}
}

// A flipped bit is told, or it is in the one pair that has changed by it: SQLite
// keeps no checksums, so that pair is what its own form, and verify, say of it.
// It never hides, adds or moves another pair unseen.
func TestFlippedLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	file, want := whole(t)
	rng := rand.New(rand.NewPCG(1, 2))
	offsets := []int{}
	for n := range 110 { // the file's header and the first page's
		offsets = append(offsets, n)
	}
	for n := 4096; n < len(file); n += 4096 { // each page's header and the first cells
		for range 4 {
			offsets = append(offsets, n+rng.IntN(16))
		}
		for range 6 {
			offsets = append(offsets, n+rng.IntN(4096))
		}
	}
	told, examinedCount, alone, harmless := 0, 0, 0, 0
	for _, at := range offsets {
		flipped := append([]byte(nil), file...)
		flipped[at] ^= 1 << rng.IntN(8)
		path := place(t, flipped)
		what := fmt.Sprintf("byte %d from %02x to %02x", at, file[at], flipped[at])
		got, err := readEverything(t.Context(), path)
		if err != nil {
			told++
			wantTold(t, what, path, err)
			continue
		}
		if maps.Equal(got, want) {
			harmless++
			continue
		}
		if err := examined(t.Context(), path); err != nil {
			examinedCount++
			continue
		}
		// Unseen by all: only bytes of one value may be others.
		changed := 0
		for key, value := range want {
			if g, ok := got[key]; !ok || len(g) != len(value) {
				t.Errorf("%s: the pair %x is gone or cut, and nothing tells", what, key)
			} else if g != value {
				changed++
			}
		}
		if changed != 1 || len(got) != len(want) {
			t.Errorf("%s: %d pairs have changed, %d instead of %d are there, and nothing tells", what, changed, len(got), len(want))
		}
		alone++
	}
	t.Logf("%d flips: reading told of %d, verify of %d; %d changed the bytes of one value; %d changed nothing", len(offsets), told, examinedCount, alone, harmless)
	if told == 0 || examinedCount == 0 {
		t.Error("the test shows nothing")
	}
}

// Files of others, and of the future, are refused by name and left alone.
func TestForeignLedger(t *testing.T) {
	file, _ := whole(t)
	sqlite := func(name string) string {
		path := filepath.Join(t.TempDir(), name)
		loadLake(t, "../lake/testdata/steps/01-create.sql").exec(t, "VACUUM INTO ?", path)
		return path
	}
	future := func(change func(*kv.Batch)) string {
		path := place(t, file)
		w := openStore(t, path)
		commitRaw(t, w, change)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		path  string
		words string
	}{
		"text":                  {place(t, []byte(strings.Repeat("not a database. ", 1000))), "not a database"},
		"archive":               {place(t, append([]byte("PK\x03\x04"), make([]byte, 8192)...)), "not a database"},
		"zeros":                 {place(t, make([]byte, 16384)), "not a database"},
		"DuckLake's own SQLite": {sqlite("lake.sqlite"), "another program"},
		"format of the future": {future(func(b *kv.Batch) {
			b.Put(keys.System(keys.SuffixFormatVersion), keys.SealU32(keys.TagSystem, 99))
		}), "format 99"},
		"values of the future": {future(func(b *kv.Batch) { b.Put(keys.CounterFile(), []byte("\x02\xfe\x00\x00\x00\x00\x00\x00\x00\x01")) }), "next_file_id"},
		"counter of another":   {future(func(b *kv.Batch) { b.Put(keys.CounterFile(), keys.SealU64(keys.TagSystem, 100)) }), "next_file_id"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := os.ReadFile(test.path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := sqlitekv.OpenWriter(t.Context(), test.path, nil)
			opened := err == nil
			if opened {
				_, err = catalog.Open(t.Context(), w, nil)
				w.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("for writing: got %v, want %q", err, test.words)
			}
			if opened {
				return // it is a store of ours: to look into it raised the epoch
			}
			after, err := os.ReadFile(test.path)
			if err != nil {
				t.Fatal(err)
			}
			if string(before) != string(after) {
				t.Error("the file was changed")
			}
		})
	}
}
