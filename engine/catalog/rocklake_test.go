package catalog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
)

// pairs is a store in memory, for reading.
type pairs map[string][]byte

func (p pairs) Get(_ context.Context, key []byte) ([]byte, error) { return p[string(key)], nil }
func (p pairs) View(context.Context) (kv.View, error)             { return p, nil }
func (p pairs) Close() error                                      { return nil }

func (p pairs) Scan(_ context.Context, start, end []byte, reverse bool) iter.Seq2[kv.KV, error] {
	return func(yield func(kv.KV, error) bool) {
		list := slices.Sorted(maps.Keys(p))
		if reverse {
			slices.Reverse(list)
		}
		for _, k := range list {
			if bytes.Compare([]byte(k), start) < 0 || end != nil && bytes.Compare([]byte(k), end) >= 0 {
				continue
			}
			if !yield(kv.KV{Key: []byte(k), Value: p[k]}, nil) {
				return
			}
		}
	}
}

// rockLakes reads testdata/rocklake-oracle-dump.txt: the catalog that RockLake
// made through its library (a), and the one a client made over the wire (b).
func rockLakes(t testing.TB) (a, b pairs) {
	t.Helper()
	f, err := os.Open("testdata/rocklake-oracle-dump.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	into := pairs(nil)
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		switch text := s.Text(); {
		case strings.HasPrefix(text, "# PART A"):
			a = pairs{}
			into = a
		case strings.HasPrefix(text, "# PART B"):
			b = pairs{}
			into = b
		case !strings.HasPrefix(text, "#"):
			k, v, _ := strings.Cut(text, "\t")
			into[string(unhex(t, k))] = unhex(t, v)
		}
	}
	if err := s.Err(); err != nil || len(a) < 40 || len(b) < 70 {
		t.Fatalf("%d and %d pairs, %v", len(a), len(b), err)
	}
	return a, b
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func examine(t testing.TB, p pairs) *catalog.Examination {
	t.Helper()
	return catalog.Examine(t.Context(), p, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
}

// A catalog that RockLake made is read whole: what its library made is healthy;
// what a client made over the wire has the two junk rows of statistics that
// RockLake writes, and nothing else.
func TestRockLakeCatalogs(t *testing.T) {
	a, b := rockLakes(t)
	x := examine(t, a)
	if !x.RockLake || x.Latest != 8 || x.Pairs != int64(len(a)) || len(x.Findings) != 0 {
		t.Errorf("library: %+v", x)
	}
	x = examine(t, b)
	var got []string
	for _, f := range x.Findings {
		got = append(got, f.Code+" "+f.Key)
	}
	zero := strings.Repeat("00", 8)
	want := []string{"W101 12" + zero + zero, "W101 13" + zero + zero + zero}
	if diff := cmp.Diff(want, got); diff != "" || x.Latest != 11 || !x.RockLake {
		t.Errorf("wire (-want +got):\n%s", diff)
	}
	r, err := catalog.OpenReader(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := r.View(t.Context())
	names := map[string]bool{}
	for _, row := range collect(t, catalog.Rows(t.Context(), v, catalog.Lookup("column"), 11)) {
		c, err := catalog.Decode[catalog.ColumnRow](catalog.Lookup("column"), row)
		if err != nil {
			t.Fatal(err)
		}
		names[c.ColumnName] = true
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b2": true, "c": true, "x": true, "d": true}, names); diff != "" {
		t.Errorf("columns at the newest snapshot (-want +got):\n%s", diff)
	}
}

// What RockLake's own verify passes as "Status: OK", or stops at, is found
// here in its own catalogs, and the rest of the store is still looked at.
func TestRockLakeFaults(t *testing.T) {
	u64 := func(n byte) []byte { return append([]byte("\x01SDKV\x00\x00\x00\x00\x00\x00\x00"), n) }
	row := func(keyHex, payloadHex string) func(pairs) {
		return func(p pairs) { p[string(unhex(t, keyHex))] = append([]byte("\x01SDKV"), unhex(t, payloadHex)...) }
	}
	n := func(v byte) string { return strings.Repeat("00", 7) + hex.EncodeToString([]byte{v}) }
	for _, test := range []struct {
		name string
		do   func(pairs)
		want []string
		says string
	}{
		{"file counter behind a delete file", func(p pairs) { p["\xfe\x03"] = u64(4) }, []string{"E001"}, "next_file_id is 4, but rows use ids up to 4: it must be 5"},
		{"file counter 1", func(p pairs) { p["\xfe\x03"] = u64(1) }, []string{"E001"}, "it must be 5"},
		{"snapshot counter 1", func(p pairs) { p["\xfe\x01"] = u64(1) }, []string{"E001"}, "it must be 9"},
		{"catalog counter 1", func(p pairs) { p["\xfe\x02"] = u64(1) }, []string{"E001"}, "it must be 9"},
		{"catalog counter behind DuckLake's next", func(p pairs) { p["\xfe\x02"] = u64(8) }, []string{"E010"}, "next_catalog_id is 8, but a snapshot says that 9 is next: it must be 9"},
		{"counter key deleted", func(p pairs) { delete(p, "\xfe\x03") }, []string{"E002"}, "next_file_id is missing, but rows use ids up to 4: it must be 5"},
		{"counter far ahead", func(p pairs) { p["\xfe\x03"] = []byte("\x01SDKV\x00\x00\x00\x00\x01\x00\x00\x00") }, []string{"W104"}, "that is allowed"},
		{"counter of 5 bytes", func(p pairs) { p["\xfe\x03"] = []byte("\x01SDKV") }, []string{"E002"}, "cannot be read"},
		{"counter in the contract's form", func(p pairs) { p["\xfe\x03"] = []byte("\x01\xfe\x00\x00\x00\x00\x00\x00\x00\x05") }, nil, ""},
		{"the contract's column counter behind", func(p pairs) {
			p[string(unhex(t, "fe04"+n(3)))] = u64(5)
		}, []string{"E001"}, "next_column_id of table 3 is 5, but rows use ids up to 8"},
		{"undecodable table row, and a counter", func(p pairs) {
			row("05"+n(1)+n(3)+n(2), "0a")(p)
			p["\xfe\x03"] = u64(1)
		}, []string{"E001", "E007"}, "undecodable row of table"},
		{"format version deleted", func(p pairs) { delete(p, string(unhex(t, "ff"+hex.EncodeToString([]byte("catalog-format-version"))))) }, []string{"E002"}, "the format version is missing"},
		{"index copy deleted", func(p pairs) { delete(p, string(unhex(t, "21"+n(3)+n(4)+n(1)))) }, []string{"E008"}, "lacks data file 1"},
		{"index copy differs", func(p pairs) {
			k := string(unhex(t, "21"+n(3)+n(4)+n(1)))
			p[k] = append(slices.Clone(p[k]), 0x70, 0x01)
		}, []string{"E008"}, "another data file 1 than its row"},
		{"index copy under another snapshot", func(p pairs) {
			k := string(unhex(t, "21"+n(3)+n(4)+n(1)))
			p[string(unhex(t, "21"+n(3)+n(5)+n(1)))] = p[k]
			delete(p, k)
		}, []string{"E008"}, "its row is of table 3 and snapshot 4"},
		{"index copy of nothing", func(p pairs) {
			p[string(unhex(t, "21"+n(3)+n(4)+n(9)))] = p[string(unhex(t, "21"+n(3)+n(4)+n(1)))]
		}, []string{"E008"}, "has data file 9, which has no row"},
		{"table index deleted", func(p pairs) { delete(p, string(unhex(t, "fc"+n(3)))) }, []string{"E008"}, "lacks table 3"},
		{"table index of another schema", func(p pairs) { p[string(unhex(t, "fc"+n(3)))] = u64(2) }, []string{"E008"}, "table 3 in schema 2, its row says 1"},
		{"table index of nothing", func(p pairs) { p[string(unhex(t, "fc"+n(7)))] = u64(1) }, []string{"E008"}, "has table 7"},
		{"unknown tag 0x40", func(p pairs) { p["\x40abc"] = nil }, []string{"E009"}, "unknown tag 40"},
		{"retired tag", func(p pairs) { p["\x1dabc"] = nil }, []string{"E009"}, "unknown tag 1d"},
		{"unknown system key", func(p pairs) { p["\xffabc"] = nil }, []string{"E009"}, ""},
		{"data file of a missing table", func(p pairs) {
			row("0b"+n(9)+n(1), "0801"+"1009"+"1a0178"+"220770617271756574"+"5004")(p)
			row("21"+n(9)+n(4)+n(1), "0801"+"1009"+"1a0178"+"220770617271756574"+"5004")(p)
			delete(p, string(unhex(t, "0b"+n(3)+n(1))))
			delete(p, string(unhex(t, "21"+n(3)+n(4)+n(1))))
		}, []string{"E006"}, "has table_id 9, which is no table"},
		{"a delete file without a table matches none", row("0c"+n(1)+n(4), "0804"+"1001"+"1a0178"+"2003"+"3007"+"4007"), nil, ""},
		{"an older delete file has its begin in another field", row("0c"+n(1)+n(4), "0804"+"1001"+"1a0178"+"2003"+"3007"+"3803"), nil, ""},
		{"a row under another's key", row("04"+n(1), "0802"+"1204"+hex.EncodeToString([]byte("main"))+"1801"), []string{"E006", "E007"}, "a schema row has schema_id 2, its key says 1"},
		{"end before begin", row("0c"+n(1)+n(4), "0804"+"1001"+"1a0178"+"2003"+"3803"+"4007"+"4805"), []string{"E003"}, ""},
		{"a begin that was never committed", row("0c"+n(1)+n(4), "0804"+"1001"+"1a0178"+"2003"+"3803"+"4009"), []string{"E001", "E004"}, "names snapshot 9, the newest is 8"},
		{"a gap of snapshots, as a restore leaves it", func(p pairs) {
			delete(p, string(unhex(t, "02"+n(6))))
			delete(p, string(unhex(t, "03"+n(6))))
		}, []string{"E004", "W102"}, "after snapshot 5 comes 7"},
		{"an expired lease", func(p pairs) { p["\x22\x00\x02c1"] = unhex(t, "0a02633110011880d095ffbc31") }, []string{"W103"}, `the lease of "c1" on snapshot 1 has expired`},
		{"a lease that runs", func(p pairs) { p["\x22\x00\x02c1"] = unhex(t, "0a0263311001"+"18ffffffffffff3f") }, nil, ""},
		{"a pin below what is kept", func(p pairs) {
			p[string(append([]byte("\xffpinned:"), unhex(t, n(3))...))] = u64(3)
			p["\xffretain-from"] = u64(5)
		}, []string{"W103"}, "snapshot 3 is pinned, but what is kept begins at 5"},
		{"a pin of the future", func(p pairs) { p[string(append([]byte("\xffpinned:"), unhex(t, n(30))...))] = u64(30) }, []string{"E004"}, "snapshot 30 is pinned"},
		{"what is kept begins beyond the newest", func(p pairs) { p["\xffretain-from"] = u64(9) }, []string{"E002"}, "is above the newest"},
		{"an inlined row of no table", row("fd01"+n(9)+n(1)+n(0), "0809"+"2804"), []string{"W101"}, "an inlined row of table 9"},
		{"an inlined row of the future", row("fd01"+n(3)+n(1)+n(0), "0803"+"280a"), []string{"E004"}, ""},
		{"statistics of no table", row("11"+n(9), "0809"), []string{"W101"}, "has table_id 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, _ := rockLakes(t)
			test.do(a)
			x := examine(t, a)
			if diff := cmp.Diff(test.want, codes(x.Findings)); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, x.Findings)
			}
			said := test.says == ""
			for _, f := range x.Findings {
				said = said || strings.Contains(f.Message, test.says)
			}
			if !said {
				t.Errorf("nobody says %q: %v", test.says, x.Findings)
			}
		})
	}
}

// RockLake's catalogs are read, never written.
func TestRockLakeIsNotWritten(t *testing.T) {
	a, _ := rockLakes(t)
	a["\xfe\x03"] = []byte("\x01SDKV\x00\x00\x00\x00\x00\x00\x00\x01")
	w := &noCommits{pairs: a, t: t}
	if _, err := catalog.Repair(t.Context(), w); !errors.Is(err, catalog.ErrFormat) {
		t.Errorf("repair: %v", err)
	}
	if _, err := catalog.Open(t.Context(), w, nil); !errors.Is(err, catalog.ErrFormat) {
		t.Errorf("open for writing: %v", err)
	}
}

// noCommits is a writer that nobody may commit to.
type noCommits struct {
	pairs
	t *testing.T
}

func (w *noCommits) Commit(context.Context, *kv.Batch) error {
	w.t.Error("committed")
	return nil
}
