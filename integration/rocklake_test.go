//go:build slatedb

package integration

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
)

// rockLakePart is one catalog of the dump of RockLake's own, pair by pair.
func rockLakePart(t testing.TB, part string) map[string]string {
	t.Helper()
	f, err := os.Open("../engine/catalog/testdata/rocklake-oracle-dump.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pairs, in := map[string]string{}, false
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		text := s.Text()
		if strings.HasPrefix(text, "# PART ") {
			in = strings.HasPrefix(text, "# PART "+part)
			continue
		}
		k, v, ok := strings.Cut(text, "\t")
		if !in || !ok || strings.HasPrefix(text, "#") {
			continue
		}
		key, err1 := hex.DecodeString(k)
		value, err2 := hex.DecodeString(v)
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", text, err1, err2)
		}
		pairs[string(key)] = string(value)
	}
	if err := s.Err(); err != nil || len(pairs) < 40 {
		t.Fatalf("part %s: %d pairs, %v", part, len(pairs), err)
	}
	return pairs
}

// rockLakeStore puts such a catalog, with changes ("": deleted), into SlateDB in
// a folder. Our driver's record of who has opened it is in the place of
// RockLake's; nothing else is ours.
func rockLakeStore(t testing.TB, pairs, changes map[string]string) string {
	t.Helper()
	at := "slatedb:file://" + filepath.Join(t.TempDir(), "catalog")
	w, err := kvopen.OpenWriter(t.Context(), at, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	put := func(k, v string) {
		switch k {
		case string(keys.System(keys.SuffixWriterEpoch)), string(keys.System(keys.SuffixWriterNonce)), string(keys.System(keys.SuffixOwner)):
			return
		}
		b.Put([]byte(k), []byte(v))
	}
	for k, v := range pairs {
		if _, changed := changes[k]; !changed {
			put(k, v)
		}
	}
	for k, v := range changes {
		if v != "" {
			put(k, v)
		}
	}
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestRockLakeCatalogOnSlate: the catalogs that RockLake made, on the kind of
// store that it uses, by the program that users have: what is healthy is so,
// what RockLake itself takes for healthy and is not is found and named, and
// nothing is ever written.
func TestRockLakeCatalogOnSlate(t *testing.T) {
	sb := newSandbox(t)
	sb.useBinary(slateBinary(t))
	counter := func(n byte) string { return "\x01SDKV\x00\x00\x00\x00\x00\x00\x00" + string(n) }
	type finding struct {
		Code       string `json:"code"`
		Key        string `json:"key"`
		Repairable bool   `json:"repairable"`
		Details    *struct {
			Current  *uint64 `json:"current"`
			MaxID    *uint64 `json:"max_id"`
			Proposed uint64  `json:"proposed"`
		} `json:"repair_details"`
	}
	zero := strings.Repeat("00", 8)
	for _, test := range []struct {
		name, part string
		changes    map[string]string
		errors     []string // code and key
		warnings   []string
		text       string            // a line of verify
		proposed   map[string]uint64 // by key
		inspect    int               // exit code
	}{
		{name: "made by its library", part: "A", text: " is whole: "},
		{name: "made by a client, with its junk rows of statistics", part: "B",
			warnings: []string{"W101 12" + zero + zero, "W101 13" + zero + zero + zero}, text: ", 2 warnings\n"},
		{name: "file counter behind", part: "A", changes: map[string]string{"\xfe\x03": counter(1)},
			errors: []string{"E001 fe03"}, text: "E001 next_file_id is 1, but rows use ids up to 4: it must be 5 (key fe03)\n", proposed: map[string]uint64{"fe03": 5}},
		{name: "all counters behind", part: "A", changes: map[string]string{"\xfe\x01": counter(1), "\xfe\x02": counter(1), "\xfe\x03": counter(1)},
			errors: []string{"E001 fe01", "E001 fe02", "E001 fe03"}, text: " has 3 errors in ", proposed: map[string]uint64{"fe01": 9, "fe02": 9, "fe03": 5}},
		{name: "counter deleted", part: "A", changes: map[string]string{"\xfe\x03": ""},
			errors: []string{"E002 fe03"}, text: "E002 next_file_id is missing, but rows use ids up to 4: it must be 5 (key fe03)\n", proposed: map[string]uint64{"fe03": 5}},
		{name: "counter of five bytes", part: "A", changes: map[string]string{"\xfe\x03": "\x01SDKV"},
			errors: []string{"E002 fe03"}, text: "E002 next_file_id cannot be read: ", proposed: map[string]uint64{"fe03": 5}},
		{name: "format version deleted", part: "A", changes: map[string]string{string(keys.System(keys.SuffixFormatVersion)): ""},
			errors: []string{"E002 " + hex.EncodeToString(keys.System(keys.SuffixFormatVersion))}, text: "E002 ", inspect: 19},
		{name: "a key of an unknown tag", part: "A", changes: map[string]string{"\x40": "x"}, errors: []string{"E009 40"}, text: "E009 "},
	} {
		t.Run(test.name, func(t *testing.T) {
			pairs := rockLakePart(t, test.part)
			at := rockLakeStore(t, pairs, test.changes)
			folder := strings.TrimPrefix(at, "slatedb:file://")
			before := filesBelow(t, folder)
			code := 0
			if len(test.errors) > 0 {
				code = 1
			}
			tarn := func(code int, args ...string) string {
				t.Helper()
				r := sb.run(sb.dir, sb.bin, append(args, "--catalog", at)...)
				if r.code != code {
					t.Fatalf("tarn %s: exit code %d, want %d\n%s", strings.Join(args, " "), r.code, code, r.out)
				}
				return r.out
			}
			if out := tarn(test.inspect, "inspect", "snapshot", "--latest"); test.inspect == 0 && !strings.Contains(out, "Latest snapshot ID:   "+map[string]string{"A": "8", "B": "11"}[test.part]+"\n") || !strings.Contains(out, at) {
				t.Errorf("inspect:\n%s", out)
			}
			if out := tarn(code, "verify", "catalog"); !strings.Contains(out, test.text) || code == 1 && !strings.HasSuffix(out, ": repair them with RockLake\n") {
				t.Errorf("verify, want %q:\n%s", test.text, out)
			}
			var report struct {
				Storage, Kind    string
				Errors, Warnings []finding
			}
			out := tarn(code, "verify", "catalog", "--json")
			if err := json.Unmarshal([]byte(out), &report); err != nil || report.Kind != "rocklake" || report.Storage != at {
				t.Fatalf("verify: %v\n%s", err, out)
			}
			list := func(of []finding) (out []string) {
				for _, f := range of {
					out = append(out, f.Code+" "+f.Key)
					if f.Repairable {
						t.Errorf("%s: nothing is written to RockLake's catalogs, but it says repairable", f.Code)
					}
				}
				return out
			}
			if diff := cmp.Diff(test.errors, list(report.Errors)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, list(report.Warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			for _, f := range report.Errors {
				if want, ok := test.proposed[f.Key]; ok && (f.Details == nil || f.Details.Proposed != want || f.Details.MaxID == nil) {
					t.Errorf("%s of %s: %+v, want %d proposed", f.Code, f.Key, f.Details, want)
				}
			}
			for _, args := range [][]string{{"repair"}, {"repair", "--dry-run"}, {"repair", "--apply"}} {
				out := tarn(code, args...)
				if want := map[int]string{0: "needs no repair", 1: "can be read, not written: repair it with RockLake"}[code]; !strings.Contains(out, want) {
					t.Errorf("%v, want %q:\n%s", args, want, out)
				}
			}
			var repair struct {
				Kind    string
				Applied bool
				Repairs []any
				Left    []finding
			}
			out = tarn(code, "repair", "--dry-run", "--json")
			if err := json.Unmarshal([]byte(out), &repair); err != nil || repair.Kind != "rocklake" || repair.Applied || len(repair.Repairs) != 0 {
				t.Errorf("repair: %v\n%s", err, out)
			}
			if diff := cmp.Diff(test.errors, list(repair.Left)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, filesBelow(t, folder)); diff != "" {
				t.Errorf("looking at it wrote:\n%s", diff)
			}
		})
	}
}

// filesBelow is every file below dir, with its content and time.
func filesBelow(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
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
		out[p] = fmt.Sprintf("%x %v", sha256.Sum256(b), st.ModTime())
		return nil
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(out), err)
	}
	return out
}
