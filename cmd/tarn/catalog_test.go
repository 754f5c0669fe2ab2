package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
	"github.com/tarnfs/tarn/engine/outcome"
)

// newStore makes a store with an empty ledger.
func newStore(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.sqlite")
	w, err := sqlitekv.OpenWriter(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := catalog.Create(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func putRaw(t testing.TB, path string, pairs map[string][]byte) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range pairs {
		if _, err := tx.Exec("INSERT OR REPLACE INTO kv(key,value) VALUES(?,?)", []byte(k), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// rockLakeStore is the first catalog of the dump, with RockLake's own epoch and
// nonce in the place of ours.
func rockLakeStore(t testing.TB) string {
	t.Helper()
	path := newStore(t)
	f, err := os.Open("../../engine/catalog/testdata/rocklake-oracle-dump.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pairs := map[string][]byte{}
	for s := bufio.NewScanner(f); s.Scan() && !strings.HasPrefix(s.Text(), "# PART B"); {
		k, v, ok := strings.Cut(s.Text(), "\t")
		if !ok {
			continue
		}
		key, err1 := hex.DecodeString(k)
		value, err2 := hex.DecodeString(v)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		pairs[string(key)] = value
	}
	putRaw(t, path, pairs)
	return path
}

// The commands as the contract writes them, on a store by itself: "inspect
// snapshot --latest --catalog URL", "--format json", "--key"; "verify catalog
// --catalog URL"; "repair --dry-run", then "repair --apply".
func TestCatalogCommands(t *testing.T) {
	h := newTestHost(t)
	store := newStore(t)
	for _, args := range []string{"inspect snapshot --latest --catalog " + store, "inspect --catalog sqlite:" + store, "inspect -c " + store} {
		if out, _ := h.run(t, outcome.Done, strings.Fields(args)...); !strings.Contains(out, "Latest snapshot ID:   none yet\n") || !strings.Contains(out, "Next file ID:         0\n") {
			t.Errorf("%s printed %s", args, out)
		}
	}
	out, _ := h.run(t, outcome.Done, "inspect", "snapshot", "--latest", "--catalog", store, "--format", "json")
	var doc map[string]any
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc["storage"] != store || doc["latest_snapshot"] != nil {
		t.Errorf("json: %s (%v)", out, err)
	}
	if same, _ := h.run(t, outcome.Done, "inspect", "--json", "--catalog", store); same != out {
		t.Error("--json and --format json differ")
	}
	for _, name := range []string{"fe01", "counter:snapshot"} {
		out, _ := h.run(t, outcome.Done, "inspect", "--key", name, "--catalog", store)
		if want := "key     fe01  counter:snapshot\nvalue   absent, which counts as 0\n"; out != want {
			t.Errorf("--key %s printed %q", name, out)
		}
	}
	out, _ = h.run(t, outcome.Done, "inspect", "--key", "sys:writer-epoch", "--catalog", store)
	if want := "key     ff7772697465722d65706f6368  sys:writer-epoch\nvalue   01ff0000000000000001  (tarn)\nmeans   1\n"; out != want {
		t.Errorf("writer epoch: %q", out)
	}

	if out, _ := h.run(t, outcome.Done, "verify", "catalog", "--catalog", store); !strings.Contains(out, " is whole: ") {
		t.Errorf("a fresh store: %s", out)
	}
	if out, _ := h.run(t, outcome.Done, "repair", "--dry-run", "--catalog", store); !strings.Contains(out, "needs no repair") {
		t.Errorf("a fresh store: %s", out)
	}
	putRaw(t, store, map[string][]byte{"\xfe\x03": {1, 0xfe, 7}})
	out, _ = h.run(t, outcome.Difference, "verify", "catalog", "--catalog", store)
	if !strings.Contains(out, "E002 next_file_id cannot be read: ") || !strings.Contains(out, "it must be 0 (key fe03)") || !strings.Contains(out, "tarn repair --dry-run") {
		t.Errorf("verify: %s", out)
	}
	for _, args := range []string{"repair", "repair --dry-run"} {
		out, _ := h.run(t, outcome.Difference, append(strings.Fields(args), "--catalog", store)...)
		if want := "would set next_file_id (key fe03): missing or unreadable -> 0\nnothing was written; to do it: tarn repair --apply\n"; out != want {
			t.Errorf("%s: %q", args, out)
		}
	}
	out, _ = h.run(t, outcome.Done, "repair", "--apply", "--catalog", store)
	if want := "set next_file_id (key fe03): missing or unreadable -> 0\n" + store + " is repaired\n"; out != want {
		t.Errorf("apply: %q", out)
	}
	h.run(t, outcome.Done, "verify", "catalog", "--catalog", store)
	putRaw(t, store, map[string][]byte{"\x40": {0}, "\xfe\x03": {1}})
	h.run(t, outcome.Difference, "repair", "--apply", "--catalog", store) // the unknown key is left
	out, _ = h.run(t, outcome.Difference, "verify", "catalog", "--catalog", store)
	if strings.Contains(out, "fe03") || !strings.Contains(out, "E009") {
		t.Errorf("after a repair that leaves something: %s", out)
	}
}

// "unknown flag = usage error": nothing that is asked for is ever ignored.
func TestCatalogUsage(t *testing.T) {
	h := newTestHost(t)
	store := newStore(t)
	for _, args := range []string{
		"inspect --bogus", "inspect tables", "inspect --format yaml", "inspect --latest --at-snapshot 1", "inspect --key fe01 --latest",
		"inspect --key xyz", "inspect --key counter:rows", "inspect --key=", "inspect --json --format text", "inspect snapshot latest",
		"verify catalog --bogus", "verify catalogs", "verify --catalog", "verify catalog --data", "verify repo --branch main",
		"verify catalog --branch main", "repair --dry-run --apply", "repair --confirm", "repair now",
		"inspect --repo x",
	} {
		words := strings.Fields(args)
		if args == "verify catalog --branch main" || !strings.HasPrefix(args, "verify --catalog") {
			words = append(words, "--catalog", store)
		}
		t.Run(args, func(t *testing.T) {
			if out, stderr := h.run(t, outcome.Usage, words...); out != "" || stderr == "" {
				t.Errorf("printed %q and %q", out, stderr)
			}
		})
	}
	h.run(t, outcome.NotFound, "verify", "catalog", "--catalog", filepath.Join(t.TempDir(), "nowhere"))
	h.run(t, outcome.NotFound, "verify", "catalog", "--catalog", t.TempDir())
	h.run(t, outcome.NotFound, "inspect", "--at-snapshot", "3", "--catalog", store)
}

// A RockLake catalog is inspected and verified; nothing can be written to it.
func TestCatalogCommandsOnRockLake(t *testing.T) {
	h := newTestHost(t)
	store := rockLakeStore(t)
	out, _ := h.run(t, outcome.Done, "inspect", "snapshot", "--latest", "--catalog", store)
	for _, line := range []string{
		"Format version:       1 (rocklake)", "Latest snapshot ID:   8", "Schema version:       4", "Next snapshot ID:     9", "Next catalog ID:      9", "Next file ID:         5",
		"Schemas:              2", "Tables:               2", "Columns:              4", "Data files:           3", "Delete files:         1", "Retain-from:          0", "Writer epoch:         1",
		"Author:               me", "Message:              alter",
	} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
	out, _ = h.run(t, outcome.Done, "inspect", "--at-snapshot", "3", "--catalog", store)
	if !strings.Contains(out, "Data files:           0\n") || !strings.Contains(out, "Described snapshot:   3\n") {
		t.Errorf("at snapshot 3:\n%s", out)
	}
	out, _ = h.run(t, outcome.Done, "inspect", "--key", "fe03", "--catalog", store)
	if want := "key     fe03  counter:file\nvalue   0153444b560000000000000005  (rocklake)\nmeans   5\n"; out != want {
		t.Errorf("13-byte counter: %q", out)
	}
	out, _ = h.run(t, outcome.Done, "inspect", "--json", "--key", "040000000000000001", "--catalog", store)
	var key struct {
		Form    string
		Decoded map[string]any
	}
	if err := json.Unmarshal([]byte(out), &key); err != nil || key.Form != "rocklake" || key.Decoded["schema_name"] != "main" {
		t.Errorf("schema row: %s (%v)", out, err)
	}
	h.run(t, outcome.Done, "verify", "catalog", "--catalog", store)
	putRaw(t, store, map[string][]byte{"\xfe\x03": []byte("\x01SDKV\x00\x00\x00\x00\x00\x00\x00\x01")})
	out, _ = h.run(t, outcome.Difference, "verify", "catalog", "--catalog", store)
	if !strings.Contains(out, "E001 next_file_id is 1, but rows use ids up to 4: it must be 5 (key fe03)\n") {
		t.Errorf("desync: %s", out)
	}
	before, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := h.run(t, outcome.Difference, "repair", "--apply", "--catalog", store); !strings.Contains(out, "can be read, not written: repair it with RockLake") {
		t.Errorf("repair: %s", out)
	}
	after, err := os.ReadFile(store)
	if err != nil || !cmp.Equal(before, after) {
		t.Errorf("a RockLake catalog was written (%v)", err)
	}
}

// fakeCatalog answers for the ledger of a mounted folder.
type fakeCatalog struct{ fakeFolder }

func (f *fakeCatalog) Inspect(_ context.Context, o engine.InspectOptions) (document, error) {
	return f.did("inspect "+o.Key, o)
}
func (f *fakeCatalog) VerifyCatalog(context.Context) (document, error) {
	return line{"verified", map[string]any{"summary": map[string]int{"errors": 1}}}, nil
}
func (f *fakeCatalog) Repair(_ context.Context, o engine.RepairOptions) (document, error) {
	return f.did("repair", o)
}

// A mounted folder's ledger is never opened a second time: the daemon is asked.
func TestCatalogVerbsOverTheSocket(t *testing.T) {
	ctx := t.Context()
	f := &fakeCatalog{fakeFolder{&fakeMount{}, "here"}}
	ask := func(verb string, o any) document {
		t.Helper()
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := catalogVerb(ctx, f, request{Verb: verb, Options: b})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	at := int64(7)
	if d := ask(verbInspect, engine.InspectOptions{Key: "fe01", At: &at}); d.Text() != "inspect fe01 here" {
		t.Error(d.Text())
	}
	if d := ask(verbVerifyCatalog, nil); d.Text() != "verified" {
		t.Error(d.Text())
	}
	if d := ask(verbRepair, engine.RepairOptions{Apply: true, By: "Ann"}); d.Text() != "repair here" {
		t.Error(d.Text())
	}
	if _, err := catalogVerb(ctx, f, request{Verb: verbRepair, Options: []byte(`{"force":true}`)}); outcome.Of(err) != outcome.Usage {
		t.Errorf("an option nobody knows: %v", err)
	}
	if _, err := catalogVerb(ctx, &fakeFolder{&fakeMount{}, ""}, request{Verb: verbInspect}); outcome.Of(err) != outcome.NotFound {
		t.Errorf("a folder without a ledger: %v", err)
	}
}

// Looking at what is not there makes nothing, a URL of no kind is refused, and
// what is logged does not get into the result.
func TestInspectMakesNothing(t *testing.T) {
	h := newTestHost(t)
	dir := t.TempDir()
	h.dir = dir
	for _, verb := range [][]string{{"inspect"}, {"verify", "catalog"}, {"repair", "--apply"}} {
		for _, url := range []string{"nowhere", filepath.Join(dir, "no", "where"), "sqlite:nowhere"} {
			h.run(t, outcome.NotFound, append(verb, "--catalog", url)...)
		}
		for _, url := range []string{"file:///nowhere/x", "file://" + dir + "/x", "s3://bucket/x"} {
			if _, stderr := h.run(t, outcome.Usage, append(verb, "--catalog", url)...); !strings.Contains(stderr, "does not say which kind it is") {
				t.Errorf("%s: %s", url, stderr)
			}
		}
	}
	if ents, err := os.ReadDir(dir); err != nil || len(ents) != 0 {
		t.Errorf("made %v (%v)", ents, err)
	}
	store := newStore(t)
	out, _ := h.run(t, outcome.Done, "inspect", "--json", "--log-level", "debug", "--catalog", store)
	if !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 {
		t.Errorf("stdout is not one document: %s", out)
	}
}
