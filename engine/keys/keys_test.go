package keys_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/keys"
)

// vectors reads testdata/rocklake_vectors.txt: name -> bytes.
func vectors(t testing.TB) map[string][]byte {
	t.Helper()
	f, err := os.Open("testdata/rocklake_vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := regexp.MustCompile(`^(\S.*?)\s+(\d+)\s+([0-9a-f]+)$`)
	m := map[string][]byte{}
	for s := bufio.NewScanner(f); s.Scan(); {
		x := line.FindStringSubmatch(s.Text())
		if x == nil {
			t.Fatalf("line %q", s.Text())
		}
		b, err := hex.DecodeString(x[3])
		if err != nil {
			t.Fatal(err)
		}
		m[x[1]] = b
	}
	return m
}

func rowKey(t testing.TB, table string, row catalog.Row) []byte {
	t.Helper()
	k, err := catalog.Lookup(table).KeyOf(nil, row)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// rowWith makes a row of a table from some columns.
func rowWith(table string, values map[string]any) catalog.Row {
	tab := catalog.Lookup(table)
	row := make(catalog.Row, len(tab.Columns))
	for c, v := range values {
		row[tab.Col(c)] = v
	}
	return row
}

type vals = map[string]any

// "The exact byte layout": the vectors of the contract, and RockLake's where
// ours is the same.
func TestGolden(t *testing.T) {
	v := vectors(t)
	got := map[string][]byte{
		"key counter SnapshotId":               keys.CounterSnapshot(),
		"key counter CatalogId":                keys.CounterCatalog(),
		"key counter FileId":                   keys.CounterFile(),
		"key counter ColumnId(42) SEED layout": keys.CounterColumn(42),
		"key sys writer-epoch":                 keys.System(keys.SuffixWriterEpoch),
		"key sys retain-from":                  keys.System(keys.SuffixRetainFrom),
		"key sys catalog-format-version":       keys.System(keys.SuffixFormatVersion),
		"key snapshot 7":                       rowKey(t, "snapshot", rowWith("snapshot", vals{"snapshot_id": int64(7)})),
		"key schema 3 begin 7 DOC (17 B)":      rowKey(t, "schema", rowWith("schema", vals{"schema_id": int64(3), "begin_snapshot": int64(7)})),
		"key table (1,42,5)":                   rowKey(t, "table", rowWith("table", vals{"schema_id": int64(1), "table_id": int64(42), "begin_snapshot": int64(5)})),
		"key column (42,3,7)":                  rowKey(t, "column", rowWith("column", vals{"table_id": int64(42), "column_id": int64(3), "begin_snapshot": int64(7)})),
		"key data_file (42,100)":               rowKey(t, "data_file", rowWith("data_file", vals{"table_id": int64(42), "data_file_id": int64(100)})),
		"key delete_file (100,101)":            rowKey(t, "delete_file", rowWith("delete_file", vals{"data_file_id": int64(100), "delete_file_id": int64(101)})),
		"key metadata global data_path":        rowKey(t, "metadata", rowWith("metadata", vals{"key": "data_path"})),
	}
	for name, b := range got {
		want, ok := v[name]
		if !ok {
			t.Errorf("no vector %q", name)
		} else if !bytes.Equal(b, want) {
			t.Errorf("%s: got %x, want %x", name, b, want)
		}
	}
	// Those of ours that have no vector.
	var sum [32]byte
	sum[0] = 0xab
	for got, want := range map[string]string{
		hex.EncodeToString(keys.Journal(1)):  "ff7461726e2d6a6f75726e616c3a0000000000000001",
		hex.EncodeToString(keys.Source(sum)): "ff7461726e2d7368613aab" + strings.Repeat("00", 31),
		hex.EncodeToString(rowKey(t, "tag", rowWith("tag", vals{"object_id": int64(1), "key": "comment", "begin_snapshot": int64(2)}))): "1a0000000000000001" + "0007636f6d6d656e74" + "0000000000000002",
		hex.EncodeToString(rowKey(t, "metadata", rowWith("metadata", vals{"key": "k", "scope": "table", "scope_id": int64(9)}))):        "0102" + "0000000000000009" + "00016b",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// "Counter values are encoded as big-endian u64 (8 bytes) wrapped in the
// standard SDKV value envelope (1-byte format version + 1-byte type tag +
// 8-byte payload = 10 bytes total)."
func TestValues(t *testing.T) {
	v := vectors(t)
	for n, name := range map[uint64]string{0: "val counter 0 CODE (13 B)", 1: "val counter 1 CODE (13 B)", 42: "val counter 42 CODE (13 B)", math.MaxUint64: "val counter 2^64-1 CODE (13 B)"} {
		ours := keys.SealU64(keys.TagCounter, n)
		if len(ours) != 10 || ours[0] != 1 || ours[1] != 0xfe || !bytes.Equal(ours[2:], v[name][5:]) {
			t.Errorf("%d: got %x", n, ours)
		}
		for _, form := range [][]byte{ours, v[name]} {
			if got, err := keys.OpenU64(keys.TagCounter, form); err != nil || got != n {
				t.Errorf("%x: got %d, %v", form, got, err)
			}
			for cut := range len(form) {
				if got, err := keys.OpenU64(keys.TagCounter, form[:cut]); err == nil {
					t.Errorf("%x cut to %d: got %d", form, cut, got)
				}
			}
			if got, err := keys.OpenU64(keys.TagCounter, append(slices.Clone(form), 0)); !errors.Is(err, keys.ErrValue) {
				t.Errorf("%x and a byte: got %d, %v", form, got, err)
			}
		}
		if _, err := keys.OpenU64(keys.TagSystem, ours); !errors.Is(err, keys.ErrValue) {
			t.Errorf("value under a key of another tag: got %v", err)
		}
	}
	if n, rock, err := keys.OpenU32(keys.TagSystem, v["val catalog-format-version 1 CODE (9 B)"]); n != 1 || !rock || err != nil {
		t.Errorf("RockLake's format version: got %d, %v, %v", n, rock, err)
	}
	ours := keys.SealU32(keys.TagSystem, 1)
	if n, rock, err := keys.OpenU32(keys.TagSystem, ours); n != 1 || rock || err != nil || len(ours) != 6 {
		t.Errorf("our format version %x: got %d, %v, %v", ours, n, rock, err)
	}
	if _, err := keys.OpenU64(keys.TagCounter, append([]byte{2}, keys.SealU64(keys.TagCounter, 1)[1:]...)); !errors.Is(err, keys.ErrValueVersion) {
		t.Errorf("another version: got %v", err)
	}
}

func TestText(t *testing.T) {
	tag := catalog.Lookup("tag")
	row := func(key string) catalog.Row {
		return rowWith("tag", vals{"object_id": int64(1), "key": key, "begin_snapshot": int64(2)})
	}
	longest := strings.Repeat("x", math.MaxUint16)
	k := rowKey(t, "tag", row(longest))
	parsed, _, err := catalog.ParseKey(k)
	if err != nil || parsed.Values[1].Text != longest {
		t.Errorf("65535 bytes: %v", err)
	}
	// A length that wraps would give this the key of the empty text.
	if _, err := tag.KeyOf(nil, row(longest+"x")); !errors.Is(err, catalog.ErrInvariant) || !strings.Contains(err.Error(), keys.ErrTooLong.Error()) {
		t.Errorf("65536 bytes: got %v", err)
	}
	// No text runs into what follows it.
	if bytes.Equal(rowKey(t, "tag", row("a")), rowKey(t, "tag", row("a\x00"))) {
		t.Error("two texts share a key")
	}
	if _, err := catalog.Lookup("metadata").KeyOf(nil, rowWith("metadata", vals{"key": "a", "scope": "galaxy"})); !errors.Is(err, catalog.ErrInvariant) {
		t.Errorf("unknown scope: got %v", err)
	}
	if _, err := tag.KeyOf(nil, rowWith("tag", vals{"object_id": int64(-1), "key": "a"})); !errors.Is(err, catalog.ErrInvariant) {
		t.Errorf("negative id: got %v", err)
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"fe01":                       "counter:snapshot",
		"fe02":                       "counter:catalog",
		"fe03":                       "counter:file",
		"fe04000000000000002a":       "counter:column/42",
		"ff7772697465722d65706f6368": "sys:writer-epoch",
		"ff7461726e2d6a6f75726e616c3a0000000000000007":            "sys:tarn-journal:7",
		"05000000000000000100000000000000" + "2a0000000000000005": "table{schema_id=1 table_id=42 begin_snapshot=5}",
		"010000000000000000000009646174615f70617468":              `metadata{scope=0 scope_id=0 key="data_path"}`,
	} {
		b, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		k, _, err := catalog.ParseKey(b)
		if err != nil || k.String() != want {
			t.Errorf("%s: got %v, %v; want %s", in, k, err, want)
		}
	}
	for in, want := range map[string]error{
		"":                                     keys.ErrMalformed,
		"00":                                   keys.ErrUnknownTag,
		"1d":                                   keys.ErrUnknownTag, // retired in RockLake
		"20":                                   keys.ErrUnknownTag,
		"40":                                   keys.ErrUnknownTag,
		"fd":                                   keys.ErrUnknownTag,
		"fe":                                   keys.ErrMalformed,
		"fe00":                                 keys.ErrUnknownTag,
		"fe05":                                 keys.ErrUnknownTag,
		"fe10000000000000002a":                 keys.ErrUnknownTag, // RockLake's column counter
		"fe0100":                               keys.ErrMalformed,
		"fe04":                                 keys.ErrMalformed, // RockLake's checkpoint counter, not a table
		"fe0400000000000000002a":               keys.ErrMalformed,
		"ff":                                   keys.ErrUnknownTag,
		"ff6e6f":                               keys.ErrUnknownTag,
		"ff7772697465722d65706f636800":         keys.ErrUnknownTag,
		"ff7461726e2d6a6f75726e616c3a00000000": keys.ErrUnknownTag, // journal without a whole number
		"02":                                   keys.ErrMalformed,
		"0200000000000000":                     keys.ErrMalformed,
		"02000000000000000700":                 keys.ErrMalformed,
		"040000000000000003":                   keys.ErrMalformed, // RockLake's schema key, without its begin
		"010000000000000000000009646174615f706174": keys.ErrMalformed,
		"01030000000000000000000161":               keys.ErrOutOfRange,
	} {
		b, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		if k, _, err := catalog.ParseKey(b); !errors.Is(err, want) {
			t.Errorf("%s: got %v, %v; want %v", in, k, err, want)
		}
	}
}

func TestAfter(t *testing.T) {
	for in, want := range map[string][]byte{
		"\x05": {6}, "\x05\xff": {6}, "\x05\x01": {5, 2}, "\xff": nil, "\xff\xff": nil, "": nil,
		"\xfe\x04": {0xfe, 5}, "\xffa": {0xff, 'b'},
	} {
		if diff := cmp.Diff(want, keys.After([]byte(in))); diff != "" {
			t.Errorf("%x (-want +got):\n%s", in, diff)
		}
	}
}

// What Parse accepts, the layout encodes back to the same bytes: each key has
// one meaning, and each meaning one key.
func FuzzParse(f *testing.F) {
	for _, b := range vectors(f) {
		f.Add(b)
	}
	f.Add(keys.Journal(7))
	f.Add(keys.Source([32]byte{1}))
	f.Add(keys.System(keys.SuffixNote, 'a'))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, _, err := catalog.ParseKey(b)
		if err != nil {
			return
		}
		_ = k.String()
		var back []byte
		switch {
		case k.Layout != nil:
			if back, err = k.Layout.Encode(nil, k.Values...); err != nil {
				t.Fatalf("%x parsed as %v, which cannot be encoded: %v", b, k, err)
			}
		case k.Tag == keys.TagSystem:
			back = keys.System(k.Suffix, k.Tail...)
		case len(b) == 10:
			back = keys.CounterColumn(k.Table)
		default:
			back = []byte{k.Tag, k.Counter}
		}
		if !bytes.Equal(back, b) {
			t.Fatalf("%x parsed as %v, which is %x", b, k, back)
		}
	})
}
