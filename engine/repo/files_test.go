package repo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/repo/internal/strictjson"
)

func sampleFiles() []repo.File {
	return []repo.File{
		{Path: "data/main/towns/towns-2.parquet", Kind: repo.DataFile, ID: 4, Schema: "main", Table: "towns", TableID: 1, Rows: 3, Bytes: 912,
			SHA256: sum([]byte("a")), Logical: true, Name: "to\"wns.csv", SourceSHA256: sum([]byte("b"))},
		{Path: "data/main/towns/ducklake-1-delete.parquet", Kind: repo.DeleteFile, ID: 5, DataFileID: 4, Rows: 1, Bytes: 700},
		{Path: "data/geo/p/k=a%2Fb/x.parquet", Kind: repo.DataFile, ID: 0, Schema: "geo", Table: "p", TableID: 9, Rows: 7, Bytes: 10},
		{Path: "data/main/towns-old/y.parquet", Kind: repo.DataFile, ID: 6, Schema: "main", Table: "towns-old", TableID: 2, Rows: 1, Bytes: 5,
			Extra: map[string]json.RawMessage{"theirs": json.RawMessage(`{"b":1,"a":[]}`)}},
	}
}

func encodeFiles(t testing.TB, files *repo.Files) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := files.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFilesJSON(t *testing.T) {
	files, err := repo.NewFiles("data/", sampleFiles())
	if err != nil {
		t.Fatal(err)
	}
	data := encodeFiles(t, files)
	golden(t, "files.json", data)

	// It is the one form: what the generic writer makes of it is the same.
	canonical, err := strictjson.Canonical(data, strictjson.Limits{})
	if err != nil || !bytes.Equal(data, canonical) {
		t.Errorf("not canonical: %v\n%s", err, cmp.Diff(string(canonical), string(data)))
	}
	back, err := repo.DecodeFiles(bytes.NewReader(data), "data/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(encodeFiles(t, back))); diff != "" {
		t.Error(diff)
	}

	empty, err := repo.NewFiles("data/", nil)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "files-empty.json", encodeFiles(t, empty))

	// Of another tool: unknown fields everywhere, in any order, also of the file itself.
	in := `{"zzz": [1], "files": [{"path": "data/a", "rows": 1, "bytes": 2, "id": 3, "table": "t", "schema": "s", "a": null, "x": {}, "sha256": null}], "aaa": {}, "etc": "e"}`
	back, err = repo.DecodeFiles(strings.NewReader(in), "data/")
	if err != nil {
		t.Fatal(err)
	}
	data = encodeFiles(t, back)
	golden(t, "files-other-tool.json", data)
	if canonical, err = strictjson.Canonical(data, strictjson.Limits{}); err != nil || !bytes.Equal(data, canonical) {
		t.Errorf("not canonical: %v", err)
	}
}

func TestFilesIndex(t *testing.T) {
	files, err := repo.NewFiles("data/", sampleFiles())
	if err != nil {
		t.Fatal(err)
	}
	paths := func(list []*repo.File) []string {
		var out []string
		for _, f := range list {
			out = append(out, f.Path)
		}
		return out
	}
	if got := paths(slices.Collect(files.All())); !slices.IsSorted(got) || len(got) != 4 || files.Len() != 4 {
		t.Errorf("not sorted by path: %q", got)
	}
	if diff := cmp.Diff([]string{"geo", "main"}, files.Schemas()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"towns", "towns-old"}, files.Tables("main")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"data/main/towns/towns-2.parquet"}, paths(files.Of("main", "towns"))); diff != "" {
		t.Error("data entries alone: " + diff)
	}
	if diff := cmp.Diff([]string{"data/main/towns/ducklake-1-delete.parquet"}, paths(files.Deletes(4))); diff != "" {
		t.Error(diff)
	}
	if len(files.Of("main", "none")) != 0 || len(files.Deletes(6)) != 0 || len(files.Tables("none")) != 0 {
		t.Error("something of nothing")
	}
	for _, f := range sampleFiles() {
		if got, ok := files.Get(f.Path); !ok || got.ID != f.ID {
			t.Errorf("%s: %+v", f.Path, got)
		}
		if got, ok := files.ByID(f.ID); ok != (f.Kind == repo.DataFile) || ok && got.Path != f.Path {
			t.Errorf("id %d: %+v", f.ID, got)
		}
	}
	for _, path := range []string{"", "data/main", "data/main/towns/", "data/main/towns/towns-2.parque", "zzz"} {
		if files.Has(path) {
			t.Errorf("%q is there", path)
		}
	}

	next, err := files.With([]repo.File{{Path: "data/new", Kind: repo.DataFile, ID: 7}}, func(f *repo.File) bool { return f.Table == "p" })
	if err != nil || next.Len() != 4 || next.Has("data/geo/p/k=a%2Fb/x.parquet") || !next.Has("data/new") || files.Len() != 4 {
		t.Errorf("%v, %v", next, err)
	}
	if _, err := files.With(nil, func(f *repo.File) bool { return f.ID == 4 }); err == nil {
		t.Error("a delete file stayed without its data file")
	}
}

// ReadDir against the plain way, on random trees.
func TestReadDir(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "a-b", "a.b", "a0", "b", "é", "z"}
	for range 200 {
		seen := map[string]bool{}
		var list []repo.File
		for i := range rnd.IntN(40) {
			path := "data"
			for range 1 + rnd.IntN(3) {
				path += "/" + names[rnd.IntN(len(names))]
			}
			path += "/f" + fmt.Sprint(rnd.IntN(3))
			if !seen[path] {
				seen[path] = true
				list = append(list, repo.File{Path: path, Kind: repo.DataFile, ID: int64(i)})
			}
		}
		files, err := repo.NewFiles("data/", list)
		if err != nil {
			t.Fatal(err)
		}
		dirs := map[string]bool{"data/": true, "data/none/": true, "data/a": false}
		for path := range seen {
			for i := range path {
				if path[i] == '/' {
					dirs[path[:i+1]] = true
				}
			}
		}
		for dir := range dirs {
			if !strings.HasSuffix(dir, "/") {
				continue
			}
			var wantDirs, wantFiles []string
			for path := range seen {
				if rest, ok := strings.CutPrefix(path, dir); ok {
					if name, _, deeper := strings.Cut(rest, "/"); deeper {
						wantDirs = append(wantDirs, name)
					} else {
						wantFiles = append(wantFiles, path)
					}
				}
			}
			slices.Sort(wantDirs)
			slices.Sort(wantFiles)
			wantDirs = slices.Compact(wantDirs)
			gotDirs, got := files.ReadDir(dir)
			var gotFiles []string
			for _, f := range got {
				gotFiles = append(gotFiles, f.Path)
			}
			if diff := cmp.Diff([][]string{wantDirs, wantFiles}, [][]string{gotDirs, gotFiles}); diff != "" {
				t.Fatalf("%s of %v:\n%s", dir, slices.Sorted(mapKeys(seen)), diff)
			}
		}
	}
}

func mapKeys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// entry is a good one with some text put in front: later keys that repeat are refused.
func entry(fields string) string {
	base := map[string]string{"path": `"data/a"`, "id": "1", "schema": `"s"`, "table": `"t"`, "rows": "1", "bytes": "1"}
	for k := range base {
		if strings.Contains(fields, `"`+k+`":`) {
			delete(base, k)
		}
	}
	list := []string{}
	if fields != "" {
		list = append(list, fields)
	}
	for k, v := range base {
		list = append(list, `"`+k+`": `+v)
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func TestFilesRefuses(t *testing.T) {
	one := func(fields string) string { return `{"files": [` + entry(fields) + `]}` }
	two := func(a, b string) string { return `{"files": [` + entry(a) + `,` + "\n" + entry(b) + `]}` }
	tests := []struct{ name, in, words string }{
		{"empty", ``, "files.json line 1: ends in the middle"},
		{"truncated", `{"files": [` + entry(""), "ends in the middle"},
		{"after the end", one("") + "x", "'x' after the end"},
		{"other data_dir", `{"data_dir": "other/", "files": []}`, `data_dir: "other/" is not the repository's "data/"`},
		{"other data_dir at the end", `{"files": [], "data_dir": "../"}`, `"../" is not the repository's`},
		{"absolute", one(`"path": "/etc/passwd"`), `path: "/etc/passwd" is not below data/`},
		{"outside", one(`"path": "refs/heads/main"`), "is not below data/"},
		{"outside by name", one(`"path": "database/x"`), "is not below data/"},
		{"dots", one(`"path": "data/../refs/heads/main"`), "is not a clean relative path"},
		{"dots at the end", one(`"path": "data/x/.."`), "is not a clean relative path"},
		{"dot", one(`"path": "data/./x"`), "is not a clean relative path"},
		{"doubled slash", one(`"path": "data//x"`), "is not a clean relative path"},
		{"folder", one(`"path": "data/x/"`), "is not a clean relative path"},
		{"the data folder", one(`"path": "data/"`), "is a folder"},
		{"NUL in path", one(`"path": "data/a\u0000b"`), "holds a NUL"},
		{"invalid UTF-8", one("\"path\": \"data/a\xff\""), "not valid UTF-8"},
		{"long", one(`"path": "data/` + strings.Repeat("x/", 3000) + `x"`), "is not a clean relative path"},
		{"same path twice", two("", `"id": 2`), "data/a is named twice"},
		{"same path by escape", two("", `"id": 2, "path": "data/\u0061"`), "data/a is named twice"},
		{"file and folder", two("", `"id": 2, "path": "data/a/b"`), "data/a is named as a file and as a folder"},
		{"file and folder apart", `{"files": [` + entry("") + "," + entry(`"id": 2, "path": "data/a-b"`) + "," + entry(`"id": 3, "path": "data/a/b/c/d"`) + `]}`, "data/a is named as a file and as a folder"},
		{"same id twice", two("", `"path": "data/b"`), "data/a and data/b have the same id 1"},
		{"delete without data", one(`"kind": "delete", "data_file_id": 7`), "deletes rows of data file 7, which is not named"},
		{"unknown kind", one(`"kind": "puffin"`), `kind "puffin" is not known`},
		{"negative id", one(`"id": -1`), "id: -1 is negative"},
		{"negative bytes", one(`"bytes": -1`), "bytes: -1 is negative"},
		{"id of text", one(`"id": "1"`), "id: a string instead of a number"},
		{"fraction", one(`"rows": 1.5`), "1.5 is not a whole number"},
		{"bad sum", one(`"sha256": "xyz"`), `"xyz" is not a sha256`},
		{"key twice", one(`"id": 1, "id": 2`), `files: key "id" comes twice`},
		{"files twice", `{"files": [], "files": []}`, `key "files" comes twice`},
		{"1 GB string", `{"x": "` + strings.Repeat("x", 2<<20), "a string is larger than 1048576 bytes"},
		{"1 GB value", `{"x": [` + strings.Repeat("1,", 1<<20), "a value is larger than 1048576 bytes"},
		{"deep", `{"x": ` + strings.Repeat("[", 10000), "nested deeper"},
		{"deep in an entry", one(`"x": ` + strings.Repeat(`{"a":`, 10000)), "nested deeper"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := repo.DecodeFiles(strings.NewReader(test.in), "data/")
			if !errors.Is(err, repo.ErrMalformed) || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%v, want %q", err, test.words)
			}
		})
	}
	// What only says too little is not damage: the catalog knows.
	for _, in := range []string{`{}`, one(`"id": null`), one(`"schema": null`), one(`"table": null`), one(`"rows": null`), one(`"bytes": null`), one(`"path": null`), one(`"kind": "delete"`)} {
		_, err := repo.DecodeFiles(strings.NewReader(in), "data/")
		if !errors.Is(err, repo.ErrIncomplete) || errors.Is(err, repo.ErrMalformed) {
			t.Errorf("%s: %v", in, err)
		}
	}
	// The same rules when written.
	for name, edit := range map[string]func(*repo.File){
		"outside":     func(f *repo.File) { f.Path = "x" },
		"dots":        func(f *repo.File) { f.Path = "data/../x" },
		"kind":        func(f *repo.File) { f.Kind = "" },
		"negative":    func(f *repo.File) { f.Rows = -1 },
		"sum":         func(f *repo.File) { f.SHA256 = "x" },
		"name":        func(f *repo.File) { f.Name = "a\xff" },
		"NUL":         func(f *repo.File) { f.Table = "a\x00" },
		"twice":       func(f *repo.File) { f.Path = sampleFiles()[2].Path },
		"same id":     func(f *repo.File) { f.ID = 0 },
		"no data":     func(f *repo.File) { f.Kind, f.DataFileID = repo.DeleteFile, 99 },
		"file folder": func(f *repo.File) { f.Path = "data/geo/p" },
	} {
		list := sampleFiles()
		edit(&list[3])
		if _, err := repo.NewFiles("data/", list); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// manyEntries is a files.json of n entries, made as it is read.
func manyEntries(n int) io.Reader {
	i := -1
	hash := sum(nil)
	return readerFunc(func() []byte {
		i++
		switch {
		case i == 0:
			return []byte(`{"data_dir": "data/", "files": [`)
		case i <= n:
			comma := ","
			if i == n {
				comma = ""
			}
			return fmt.Appendf(nil, `{"bytes": 912, "id": %d, "kind": "data", "logical": true, "path": "data/main/t%d/ducklake-%08d.parquet", "rows": 3, "schema": "main", "sha256": "%s", "table": "t%d", "table_id": %d}%s`,
				i, i%10, i, hash, i%10, i%10, comma)
		case i == n+1:
			return []byte("]}\n")
		}
		return nil
	})
}

type chunkReader struct {
	next func() []byte
	rest []byte
}

func readerFunc(next func() []byte) io.Reader { return &chunkReader{next: next} }

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) < len(p) {
		b := r.next()
		if b == nil {
			break
		}
		r.rest = append(r.rest, b...)
	}
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestScanIsAStream(t *testing.T) {
	const n = 60_000 // 15 MB of text
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	count, most := 0, uint64(0)
	for f, err := range repo.ScanFiles(manyEntries(n), "data/") {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count%15_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		if f.Schema != "main" || f.Bytes != 912 {
			t.Fatalf("%+v", f)
		}
	}
	if count != n {
		t.Errorf("%d entries, want %d", count, n)
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	for range repo.ScanFiles(manyEntries(n), "data/") {
		break // and nothing more is read, or yielded
	}
}

func BenchmarkDecodeFiles(b *testing.B) {
	for b.Loop() {
		files, err := repo.DecodeFiles(manyEntries(100_000), "data/")
		if err != nil || files.Len() != 100_000 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/entry")
}

// FuzzFiles: whatever is taken lies below data/, and is a fixed point.
func FuzzFiles(f *testing.F) {
	files, err := repo.NewFiles("data/", sampleFiles())
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	if err := files.Encode(&b); err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{b.String(), `{"files":[` + entry("") + `]}`, `{"files":[` + entry(`"x":{"b":1,"a":2}`) + `],"zzz":1,"aaa":2}`, `{}`, `{"files":[{"path":"data/../x"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := repo.DecodeFiles(bytes.NewReader(data), "data/")
		if err != nil {
			if !errors.Is(err, repo.ErrMalformed) && !errors.Is(err, repo.ErrIncomplete) || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Fatalf("%q", err)
			}
			return
		}
		for f := range files.All() {
			if !strings.HasPrefix(f.Path, "data/") || strings.Contains(f.Path+"/", "/../") || strings.Contains(f.Path, "\x00") || f.ID < 0 || f.Bytes < 0 {
				t.Fatalf("%+v", f)
			}
		}
		text := encodeFiles(t, files)
		canonical, err := strictjson.Canonical(text, strictjson.Limits{})
		if err != nil || !bytes.Equal(text, canonical) {
			t.Fatalf("not canonical: %v\n%s", err, text)
		}
		back, err := repo.DecodeFiles(bytes.NewReader(text), "data/")
		if err != nil || !bytes.Equal(text, encodeFiles(t, back)) {
			t.Fatalf("not a fixed point: %v\n%s", err, text)
		}
	})
}
