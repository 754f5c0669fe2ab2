package repo_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/repo"
)

func sampleDataset() *repo.Dataset {
	return &repo.Dataset{
		Name: "towns", Title: "Towns & cities", Description: "All of them.\nWith \"quotes\".", Keywords: []string{"geo", "a"},
		Licenses: []repo.License{{Name: "CC-BY-4.0", URL: "https://example.org/?a=1&b=2", Extra: map[string]json.RawMessage{"title": json.RawMessage(`"Attribution"`)}}},
		Homepage: "https://example.org", Sources: []repo.Source{{Title: "Census"}},
		Tables: []repo.Table{
			{Schema: "main", Name: "towns", Comment: "one row a town", Rows: 3, Columns: []repo.Column{
				{Name: "id", Type: "int64", Nullable: true}, {Name: "größe", Type: "float64", Comment: "km²"}}},
			{Schema: "geo", Name: "empty"},
		},
		Views: []repo.View{{Schema: "main", Name: "v", SQL: "SELECT * FROM towns WHERE id < 3"}},
		Extra: map[string]json.RawMessage{"contact": json.RawMessage(`{"b":1,"a":["x"]}`)},
	}
}

func TestDatasetJSON(t *testing.T) {
	data, err := sampleDataset().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "dataset.json", data)
	d, err := repo.DecodeDataset(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(again)); diff != "" {
		t.Errorf("read and written again:\n%s", diff)
	}
	if data, err = (&repo.Dataset{}).Encode(); err != nil {
		t.Fatal(err)
	}
	golden(t, "dataset-empty.json", data)
}

func TestMergeTakesTablesAndViewsFromTheCommit(t *testing.T) {
	edited := sampleDataset()
	edited.Tables[0].Rows = 1000000 // a person cannot change how many there are
	tables := []repo.Table{{Schema: "main", Name: "other", Rows: 1}}
	got := repo.Merge(edited, tables, nil)
	want := sampleDataset()
	want.Tables, want.Views = tables, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if edited.Tables[0].Rows != 1000000 {
		t.Error("Merge changed what was edited")
	}
}

func TestDatasetFaultsSayWhere(t *testing.T) {
	for in, words := range map[string]string{
		"{\n  \"title\": \"x\"\n  \"name\": \"y\"\n}": "dataset.json line 3: a string instead of a comma",
		"{\n\"keywords\": \"a, b\"}":                  "line 2: keywords: a string instead of a list",
		"{\"licenses\": [\n\"CC0\"]}":                 "line 2: licenses: a string instead of an object",
		`{"tables": [{"columns": [{"name": 1}]}]}`:    "tables: columns: name: '1' instead of a string",
		`{"tables": [{"rows": -3}]}`:                  "tables: rows: -3 is negative",
		`{"title": "a", "title": "b"}`:                `key "title" comes twice`,
	} {
		_, err := repo.DecodeDataset([]byte(in))
		if !errors.Is(err, repo.ErrMalformed) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", in, err, words)
		}
	}
}

func TestSameDataset(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`{"name":"x","title":"y"}`, "{\n \"title\": \"y\", \"name\": \"\\u0078\"}", true},
		{`{"name":"x"}`, `{"name":"x","title":"","tables":[],"views":null}`, true},
		{`{"theirs":{"a":1,"b":2}}`, `{"theirs":{"b":2,"a":1}}`, true},
		{`{"name":"x"}`, `{"name":"X"}`, false},
		{`{"keywords":["a","b"]}`, `{"keywords":["b","a"]}`, false},
		{`{"theirs":1}`, `{}`, false},
		{`{"theirs":1}`, `{"theirs":"1"}`, false},
		{`{"tables":[{"name":"a","rows":1}]}`, `{"tables":[{"name":"a","rows":2}]}`, false},
	} {
		got, err := repo.SameDataset([]byte(test.a), []byte(test.b))
		if err != nil || got != test.want {
			t.Errorf("%s and %s: %v, %v", test.a, test.b, got, err)
		}
	}
	if _, err := repo.SameDataset([]byte(`{}`), []byte(`{`)); !errors.Is(err, repo.ErrMalformed) {
		t.Error(err)
	}
}

// FuzzDataset: what a person may write survives a commit.
func FuzzDataset(f *testing.F) {
	data, err := sampleDataset().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"tables":[{"columns":[{"nullable":null,"x":1}]},{}],"views":[{}],"keywords":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := repo.DecodeDataset(data)
		if err != nil {
			if !errors.Is(err, repo.ErrMalformed) || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Fatalf("%q", err)
			}
			return
		}
		fixedPoint(t, d.Encode, func(data []byte) (func() ([]byte, error), error) {
			d, err := repo.DecodeDataset(data)
			if err != nil {
				return nil, err
			}
			return d.Encode, nil
		})
	})
}
