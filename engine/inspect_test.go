package engine_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/outcome"
)

// ledgerOf is the ledger of a branch's working folder, found from outside.
func ledgerOf(t testing.TB, e *engine.Engine, branch string) engine.CatalogStore {
	t.Helper()
	s, err := e.BranchStore(branch)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// edit writes pairs past the engine, as a hand with a hammer would; nil deletes.
func edit(t testing.TB, path string, pairs map[string][]byte) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for k, v := range pairs {
		if v == nil {
			_, err = db.Exec("DELETE FROM kv WHERE key=?", []byte(k))
		} else {
			_, err = db.Exec("INSERT OR REPLACE INTO kv(key,value) VALUES(?,?)", []byte(k), v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree is every file below dir with its content and time, but SQLite's -shm,
// which the handles of one process share; integration looks from another.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(p, "-shm") {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		out[p] = hex.EncodeToString(sum[:]) + " " + st.ModTime().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A working folder that is open is looked at from outside without disturbing
// it: no byte of its state changes, no epoch is raised, and its next commit
// succeeds. It says the same of itself.
func TestInspectBesideALiveWriter(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "towns.csv", "id,name\n1,Ulm\n2,Bonn\n")
	commit(t, w)
	s := ledgerOf(t, e, "main")
	state := filepath.Join(b.dir, "state")
	before := tree(t, state)

	in, err := s.Inspect(t.Context(), engine.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if in.Counts.Tables != 1 || in.Counts.DataFiles != 1 || in.Counts.Columns != 2 || in.History.Versions != 1 || in.Latest == nil || *in.Latest != 1 {
		t.Errorf("inspect: %s", in.Text())
	}
	key, err := s.Inspect(t.Context(), engine.InspectOptions{Key: "counter:file"})
	if err != nil || key.Key.Key != "fe03" || key.Key.Decoded != uint64(1) || key.Key.Value != "01fe0000000000000001" {
		t.Errorf("key: %+v, %v", key.Key, err)
	}
	report, err := s.Verify(t.Context())
	if err != nil || report.Summary.Errors+report.Summary.Warnings != 0 || report.Summary.Rows < 20 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	plan, err := s.Repair(t.Context(), engine.RepairOptions{})
	if err != nil || !plan.Clean() {
		t.Errorf("repair --dry-run: %+v, %v", plan, err)
	}
	if diff := cmp.Diff(before, tree(t, state)); diff != "" {
		t.Errorf("looking wrote:\n%s", diff)
	}

	own, err := w.InspectCatalog(t.Context(), engine.InspectOptions{})
	if err != nil || own.Text() != in.Text() {
		t.Errorf("from inside: %v\n%s", err, cmp.Diff(in.Text(), own.Text()))
	}
	if r, err := w.VerifyCatalog(t.Context()); err != nil || r.Summary != report.Summary || r.Storage != report.Storage {
		t.Errorf("verify from inside: %+v, %v", r, err)
	}
	drop(t, w, "towns.csv", "id,name\n1,Ulm\n2,Bonn\n3,Kiel\n")
	commit(t, w)
}

// A desync in a folder that is open is repaired by its own process only.
func TestRepairOfAnOpenFolder(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "towns.csv", "id,name\n1,Ulm\n")
	commit(t, w)
	s := ledgerOf(t, e, "main")
	edit(t, s.URL(), map[string][]byte{"\xfe\x03": keys.SealU64(keys.TagCounter, 0)})

	r, err := s.Repair(t.Context(), engine.RepairOptions{})
	if err != nil || len(r.Repairs) != 1 || r.Applied || r.Clean() {
		t.Fatalf("dry run: %+v, %v", r, err)
	}
	if _, err := s.Repair(t.Context(), engine.RepairOptions{Apply: true}); outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), "the catalog store is in use") {
		t.Errorf("from outside: %v", err)
	}
	if report, err := s.Verify(t.Context()); err != nil || report.Summary.Errors != 1 {
		t.Errorf("a refused repair changed something: %+v, %v", report, err)
	}
	r, err = w.RepairCatalog(t.Context(), engine.RepairOptions{})
	if err != nil || r.Applied || r.Clean() || len(r.Repairs) != 1 {
		t.Errorf("dry run inside: %+v, %v", r, err)
	}
	r, err = w.RepairCatalog(t.Context(), engine.RepairOptions{Apply: true, By: "Ann"})
	if err != nil || !r.Applied || !r.Clean() {
		t.Fatalf("%+v, %v", r, err)
	}
	drop(t, w, "towns.csv", "id,name\n1,Ulm\n2,Kiel\n")
	commit(t, w)
}

// A ledger that lost a counter cannot be opened for writing, and says so; it
// is repaired while nobody has it open, and then goes on.
func TestRepairOfALedgerThatDoesNotOpen(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "towns.csv", "id,name\n1,Ulm\n")
	commit(t, w)
	s := ledgerOf(t, e, "main")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, s.URL(), map[string][]byte{"\xfe\x02": nil, "\xfe\x03": {1, 0xfe}})

	o := engine.Options{URL: b.root(), StateHome: filepath.Join(b.dir, "state"), CacheHome: filepath.Join(b.dir, "cache"), Worker: b.worker}
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.OpenWork(t.Context(), "main"); outcome.Of(err) != outcome.Damaged || !errors.Is(err, catalog.ErrDesync) || !strings.Contains(outcome.Next(err), "tarn repair") {
		t.Fatalf("open: %v, next %q", err, outcome.Next(err))
	}
	s = ledgerOf(t, e, "main")
	report, err := s.Verify(t.Context())
	if err != nil || report.Summary.Errors != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	before := tree(t, filepath.Join(b.dir, "state"))
	if r, err := s.Repair(t.Context(), engine.RepairOptions{}); err != nil || len(r.Repairs) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if diff := cmp.Diff(before, tree(t, filepath.Join(b.dir, "state"))); diff != "" {
		t.Errorf("a dry run wrote:\n%s", diff)
	}
	r, err := s.Repair(t.Context(), engine.RepairOptions{Apply: true, By: "Ann"})
	if err != nil || !r.Clean() || !r.Applied || len(r.Repairs) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	in, err := s.Inspect(t.Context(), engine.InspectOptions{Key: "sys:tarn-audit:1"})
	if err != nil || !in.Key.Found || !strings.Contains(in.Text(), `"by":"Ann"`) {
		t.Errorf("audit entry: %s, %v", in.Text(), err)
	}
	w, err = e.OpenWork(t.Context(), "main")
	if err != nil {
		t.Fatalf("after the repair: %v", err)
	}
	drop(t, w, "towns.csv", "id,name\n1,Ulm\n2,Kiel\n")
	commit(t, w)
}

// What cannot be a catalog store, or not one of ours, is refused in one line
// that says which file and why: nothing there, a folder, other programs' files,
// half a file, flipped bits, a newer format.
func TestStoresThatCannotBeRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	b := newBench(t)
	e, w := b.open()
	for i := range 40 {
		drop(t, w, "t"+string(rune('a'+i%26))+string(rune('a'+i/26))+".csv", "id\n1\n")
	}
	commit(t, w)
	src := ledgerOf(t, e, "main").URL()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	flip := func(at, n int) []byte {
		c := bytes.Clone(whole)
		for i := range n {
			c[at+i] ^= 0xa5
		}
		return c
	}
	future := file("future.db", whole)
	edit(t, future, map[string][]byte{string(keys.System(keys.SuffixFormatVersion)): keys.SealU32(keys.TagSystem, 7)})
	foreign := filepath.Join(dir, "foreign.db")
	db, err := sql.Open("sqlite", foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE kv(key, value)"); err != nil {
		t.Fatal(err)
	}
	db.Close()

	for _, test := range []struct {
		name, url string
		kind      outcome.Outcome // of an error; Difference: a report with E000
		says      string
	}{
		{"nothing there", filepath.Join(dir, "nowhere.db"), outcome.NotFound, "no catalog store at"},
		{"a folder", dir, outcome.NotFound, "is a folder, not a catalog store"},
		{"empty file", file("empty.db", nil), outcome.Damaged, "not a catalog store"},
		{"text", file("text.db", bytes.Repeat([]byte("no database at all\n"), 400)), outcome.Damaged, "not a database"},
		{"DuckDB's", file("duck.db", append([]byte("\x00\x00\x00\x00\x00\x00\x00\x00DUCK"), make([]byte, 12000)...)), outcome.Damaged, "not a database"},
		{"another program's SQLite file", foreign, outcome.Damaged, "not a catalog store (application id 00000000)"},
		{"head cut", file("head.db", whole[:50]), outcome.Damaged, "head.db cannot be read"},
		{"half", file("half.db", whole[:len(whole)/2/4096*4096]), outcome.Difference, "the store cannot be read"},
		{"a page overwritten", file("page.db", flip(3*4096, 4096)), outcome.Difference, "the store cannot be read"},
		{"newer format", future, outcome.Refused, "the catalog store has format 7, this tarn knows up to 1"},
		{"no kind we know", "ftp://host/x", outcome.Usage, "has the unknown kind"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := engine.StoreAt(test.url)
			if err != nil {
				if outcome.Of(err) != test.kind || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v, want %v with %q", err, test.kind, test.says)
				}
				return
			}
			r, err := s.Verify(t.Context())
			if test.kind == outcome.Difference {
				// Where the damage is found, by the open or by the scan, is SQLite's.
				if err != nil {
					if outcome.Of(err) != outcome.Damaged || !strings.Contains(err.Error(), test.url) {
						t.Errorf("verify: %v", err)
					}
					return
				}
				if r.Summary.Errors == 0 || r.Errors[0].Code != "E000" || !strings.Contains(r.Text(), test.says) {
					t.Errorf("verify: %s", r.Text())
				}
				if p, err := s.Repair(t.Context(), engine.RepairOptions{Apply: true}); err != nil || len(p.Repairs) != 0 || len(p.Left) == 0 {
					t.Errorf("repair of half a store: %+v, %v", p, err)
				}
				return
			}
			for what, err := range map[string]error{"verify": err, "inspect": second(s.Inspect(t.Context(), engine.InspectOptions{})), "repair": second(s.Repair(t.Context(), engine.RepairOptions{Apply: true}))} {
				if outcome.Of(err) != test.kind || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v (%v), want %v with %q", what, err, outcome.Of(err), test.kind, test.says)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// The JSON of the three commands has the fields that scripts read.
func TestCatalogReportsAsJSON(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "towns.csv", "id,name\n1,Ulm\n")
	commit(t, w)
	s := ledgerOf(t, e, "main")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	bytes, err := os.ReadFile(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	edit(t, path, map[string][]byte{"\xfe\x03": keys.SealU64(keys.TagCounter, 0), "\x40": {1}})
	doc := func(v any, err error) map[string]any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	c, err := engine.StoreAt("sqlite:" + path)
	if err != nil {
		t.Fatal(err)
	}
	report := doc(c.Verify(t.Context()))
	delete(report, "duration_ms")
	rows := report["summary"].(map[string]any)["rows_checked"]
	want := map[string]any{
		"storage": path, "kind": "tarn", "snapshot": 1.0,
		"errors": []any{
			map[string]any{"code": "E009", "category": "unknown_key", "key": "40", "message": "keys: unknown tag: 40", "repairable": false},
			map[string]any{"code": "E001", "category": "counter_consistency", "key": "fe03", "message": "next_file_id is 0, but rows use ids up to 0: it must be 1",
				"repairable": true, "repair_action": "advance_counter",
				"repair_details": map[string]any{"counter": "next_file_id", "key": "fe03", "current": 0.0, "max_id": 0.0, "proposed": 1.0}},
		},
		"warnings": []any{}, "summary": map[string]any{"errors": 2.0, "warnings": 0.0, "rows_checked": rows},
	}
	if diff := cmp.Diff(want, report); diff != "" || rows.(float64) < 20 {
		t.Errorf("verify (-want +got):\n%s", diff)
	}
	in := doc(c.Inspect(t.Context(), engine.InspectOptions{}))
	for _, field := range []string{"storage", "format_version", "writer_epoch", "latest_snapshot", "schema_version", "counts", "counters", "retention", "last_snapshot"} {
		if _, ok := in[field]; !ok {
			t.Errorf("inspect lacks %s: %v", field, in)
		}
	}
	if diff := cmp.Diff(map[string]any{"next_snapshot_id": 2.0, "next_catalog_id": 2.0, "next_file_id": 0.0, "columns": []any{map[string]any{"table_id": 1.0, "next_column_id": 3.0}}}, in["counters"]); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	done := doc(c.Repair(t.Context(), engine.RepairOptions{Apply: true}))
	if done["applied"] != true || len(done["repairs"].([]any)) != 1 || len(done["left"].([]any)) != 1 {
		t.Errorf("repair: %v", done)
	}
}
