package repo_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/repo"
)

func sampleVersion() *repo.Version {
	return &repo.Version{
		ID: fixedID(3), Parents: []repo.ID{fixedID(2), fixedID(1)}, Author: "Ada <ada@example.org>", Message: "add \"towns\"\nand more",
		CreatedAt: day.Add(123456789), Number: 3, CreatedBy: "tarn 0.1.0",
		DuckLake: repo.DuckLake{Version: "1.0", SnapshotID: 7, SchemaVersion: 3, Extra: map[string]json.RawMessage{"theirs": json.RawMessage(`"x"`)}},
		SHA256:   map[string]string{repo.FilesFile: sum([]byte("f")), repo.CatalogFile: sum([]byte("c")), repo.DatasetFile: sum([]byte("d")), "catalogs/x.db": sum([]byte("x"))},
		Meta:     map[string]json.RawMessage{"run": json.RawMessage(`{"url":"https://example.org/?a=1&b=<2>","id":42}`)},
		Extra:    map[string]json.RawMessage{"aaa": json.RawMessage(`[1.50,null,{"z":1,"a":2}]`), "zzz": json.RawMessage(`true`)},
	}
}

func TestVersionJSON(t *testing.T) {
	v := sampleVersion()
	data, err := v.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "version.json", data)
	got, err := repo.DecodeVersion(data, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(again)); diff != "" {
		t.Errorf("read and written again:\n%s", diff)
	}
	// What was read is what was meant, but for the forms of raw JSON and below the millisecond.
	want := sampleVersion()
	want.CreatedAt = day.Add(123 * time.Millisecond)
	want.Meta, got.Meta, want.Extra, got.Extra = nil, nil, nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	first := &repo.Version{ID: fixedID(1), CreatedAt: day, DuckLake: repo.DuckLake{Version: "1.0"}}
	if data, err = first.Encode(); err != nil {
		t.Fatal(err)
	}
	golden(t, "version-first.json", data)
}

func TestVersionJSONLenient(t *testing.T) {
	v, err := repo.DecodeVersion([]byte(`{"created_at": null, "parents": null, "sha256": {"files.json": null, "README.md": "`+sum(nil)+`"}, "message": "x", "Author": "not ours"}`), fixedID(1))
	if err != nil {
		t.Fatal(err)
	}
	want := &repo.Version{
		ID: fixedID(1), CreatedAt: day.Add(time.Minute), Message: "x", DuckLake: repo.DuckLake{Version: "1.0"},
		SHA256: map[string]string{"README.md": sum(nil)}, Extra: map[string]json.RawMessage{"Author": json.RawMessage(`"not ours"`)},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
}

func TestVersionJSONRefuses(t *testing.T) {
	id := string(fixedID(1))
	for in, words := range map[string]string{
		``:                                     "version.json line 1: ends in the middle",
		`{"id": "` + id + `"`:                  "ends in the middle",
		`{"id": "` + string(fixedID(2)) + `"}`: "is not the ID of its folder",
		`{"id": "../` + id + `"}`:              "is not a version ID",
		`{"parents": ["` + id + `"]}`:          "its own parent",
		`{"parents": "` + string(fixedID(2)) + `"}`:                       "a string instead of a list",
		`{"parents": ["../../x"]}`:                                        `parents: "../../x" is not a version ID`,
		`{"parents": [null]}`:                                             "null is not a version ID",
		"{\n\"a\":1,\n\"a\":2}":                                           `line 3: key "a" comes twice`,
		`{"sha256": {"a": "` + sum(nil) + `","a":""}}`:                    `key "a" comes twice`,
		`{"sha256": {"../x": "` + sum(nil) + `"}}`:                        `"../x" is not a file name`,
		`{"sha256": {"/x": "` + sum(nil) + `"}}`:                          `"/x" is not a file name`,
		`{"sha256": {"version.json": "abc"}}`:                             "cannot hold its own checksum",
		`{"sha256": {"files.json": "abc"}}`:                               `sha256: files.json: "abc" is not a sha256`,
		`{"sha256": {"files.json": "` + strings.ToUpper(sum(nil)) + `"}}`: "is not a sha256 in lower-case hex",
		`{"number": -1}`:                                                  "-1 is negative",
		`{"number": 1.5}`:                                                 "1.5 is not a whole number",
		`{"number": 99999999999999999999}`:                                "is not a whole number of 64 bits",
		`{"ducklake": {"snapshot_id": "7"}}`:                              "ducklake: snapshot_id: a string instead of a number",
		`{"message": "a\u0000b"}`:                                         "holds a NUL",
		"{\"message\": \"a\xffb\"}":                                       "not valid UTF-8",
		`{"created_at": "2026-13-01T00:00:00Z"}`:                          "is not a time",
		`{"x": ` + strings.Repeat("[", 10000):                             "nested deeper than 64",
		`{"x": "` + strings.Repeat("x", 16<<20) + `"}`:                    "it is larger than 16777216 bytes",
		`{"parents": [` + manyIDs(65) + `]}`:                              "more than 64 parents",
		`{"parents": [` + manyIDs(1) + `,` + manyIDs(1) + `]}`:            "is named twice",
	} {
		_, err := repo.DecodeVersion([]byte(in), fixedID(1))
		if !errors.Is(err, repo.ErrMalformed) || !strings.Contains(err.Error(), words) {
			t.Errorf("%.60s: %v, want %q", in, err, words)
		}
	}
}

func manyIDs(n int) string {
	var list []string
	for i := range n {
		list = append(list, `"`+string(fixedID(10+i))+`"`)
	}
	return strings.Join(list, ",")
}

func TestVersionEncodeRefuses(t *testing.T) {
	for name, edit := range map[string]func(*repo.Version){
		"no time":          func(v *repo.Version) { v.CreatedAt = time.Time{} },
		"year 10000":       func(v *repo.Version) { v.CreatedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"own parent":       func(v *repo.Version) { v.Parents = []repo.ID{v.ID} },
		"bad parent":       func(v *repo.Version) { v.Parents = []repo.ID{"x"} },
		"message not text": func(v *repo.Version) { v.Message = "a\xff" },
		"message with NUL": func(v *repo.Version) { v.Message = "a\x00" },
		"bad sum":          func(v *repo.Version) { v.SHA256["x"] = "1" },
		"file outside":     func(v *repo.Version) { v.SHA256["../x"] = sum(nil) },
		"broken extra":     func(v *repo.Version) { v.Extra["x"] = json.RawMessage(`{`) },
	} {
		v := sampleVersion()
		edit(v)
		if _, err := v.Encode(); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

func TestNextTime(t *testing.T) {
	at := func(d time.Duration) *repo.Version { return &repo.Version{CreatedAt: day.Add(d)} }
	for _, test := range []struct {
		parents []*repo.Version
		want    time.Time
	}{
		{nil, day},
		{[]*repo.Version{at(-time.Hour)}, day},
		{[]*repo.Version{at(0)}, day.Add(time.Millisecond)},
		{[]*repo.Version{at(time.Hour), at(2 * time.Hour), at(-1)}, day.Add(2*time.Hour + time.Millisecond)},
		{[]*repo.Version{at(500 * time.Microsecond)}, day.Add(time.Millisecond)},
	} {
		got := repo.NextTime(day.Add(999*time.Nanosecond).In(time.FixedZone("", 3600)), test.parents...)
		if !got.Equal(test.want) || got.Location() != time.UTC {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
}

// FuzzVersion: what is taken keeps every field through writing and reading.
func FuzzVersion(f *testing.F) {
	data, err := sampleVersion().Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(data), `{}`, `{"parents":[]}`, `{"sha256":{"a":"` + sum(nil) + `"}}`, `{"meta":{"a":{"a":1}}}`, `{"created_at":"0001-01-01T00:00:00Z"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		id := fixedID(3)
		v, err := repo.DecodeVersion(data, id)
		if err != nil {
			if !errors.Is(err, repo.ErrMalformed) || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Fatalf("%q", err)
			}
			return
		}
		if v.CreatedAt.IsZero() {
			return // the one text of a time that is not written again
		}
		fixedPoint(t, v.Encode, func(data []byte) (func() ([]byte, error), error) {
			v, err := repo.DecodeVersion(data, id)
			if err != nil {
				return nil, err
			}
			return v.Encode, nil
		})
	})
}
