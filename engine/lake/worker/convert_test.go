package worker_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/lake"
)

// shape prints columns as SQL.
func shape(cols []lake.Column) string {
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = c.Name + " " + c.SQLType
	}
	return strings.Join(parts, ", ")
}

func cols(defs ...string) []lake.Column {
	var out []lake.Column
	for i, d := range defs {
		name, typ, _ := strings.Cut(d, " ")
		out = append(out, lake.Column{Name: name, SQLType: typ, FieldID: int64(i + 1)})
	}
	return out
}

func TestSniff(t *testing.T) {
	c := newClient(t, nil)
	for _, tc := range []struct {
		name, content string
		format        lake.Format
		want          string
		rows          int64
	}{
		{"towns", "id,name,pop\n1,Ulm,126000\n2,Jena,110000\n3,Gera,\n", lake.CSV, "id BIGINT, name VARCHAR, pop BIGINT", 3},
		{"no line end", "a,b\n1,x", lake.CSV, "a BIGINT, b VARCHAR", 1},
		{"header only", "a,b\n", lake.CSV, "a VARCHAR, b VARCHAR", 0},
		{"mark and CRLF", "\xef\xbb\xbfa;b\r\n1;x\r\n\r\n2;y\r\n", lake.CSV, "a BIGINT, b VARCHAR", 2},
		{"tabs", "a\tb\n1\t2,5\n", lake.CSV, "a BIGINT, b VARCHAR", 1},
		{"one column, blank is NULL", "a\n1\n\n2\n", lake.CSV, "a BIGINT", 3},
		{"quoted line break", "a,b\n1,\"x\ny, \"\"z\"\"\"\n2,q\n", lake.CSV, "a BIGINT, b VARCHAR", 2},
		{"quote in a bare field", "a,b\n1,5'6\"\n2,a\"b\"c\n", lake.CSV, "a BIGINT, b VARCHAR", 2},
		{"comment sign is data", "a,b\n#1,x\n#2,y\n", lake.CSV, "a VARCHAR, b VARCHAR", 2},
		{"types", "i,d,b,dt,ts,tz,ti,n\n-1,1.5,true,2024-02-29,2024-01-01 00:00:00.5,2024-01-01T00:00:00Z,12:00:00,\n2,1e3,FALSE,2024-01-01,2024-01-01T01:02,2024-01-01 00:00:00+02,13:00:00.25,\n", lake.CSV,
			"i BIGINT, d DOUBLE, b BOOLEAN, dt DATE, ts TIMESTAMP, tz TIMESTAMP WITH TIME ZONE, ti TIME, n VARCHAR", 2},
		{"what would be lost stays text", "zip,long,plus,under,dmy,day\n01234,12345678901234567890,+1,1_000,31/12/2024,2024-1-2\n99999,1,+2,2,01/01/2024,2024-01-03\n", lake.CSV,
			"zip VARCHAR, long VARCHAR, plus VARCHAR, under VARCHAR, dmy VARCHAR, day VARCHAR", 2},
		{"decided by the last row", "a,b\n" + strings.Repeat("1,2\n", 30000) + "x,2.5\n", lake.CSV, "a VARCHAR, b DOUBLE", 30001},
		{"years are names", "2023,2024\n1,2\n", lake.CSV, "2023 BIGINT, 2024 BIGINT", 1},
		{"odd names", "a b,\"c\"\"d\",ü'x\n1,2,3\n", lake.CSV, "a b BIGINT, c\"d BIGINT, ü'x BIGINT", 1},

		{"lines", `{"id":1,"n":"x","d":"2024-01-02","f":1}` + "\n\n" + `{"id":2,"n":"2024-01-03","d":"2024-01-03","f":1.5,"s":{"a":1},"l":[1,2]}` + "\n", lake.JSON,
			"id BIGINT, n VARCHAR, d DATE, f DOUBLE, s STRUCT(a BIGINT), l BIGINT[]", 2},
		{"array", "[{\"id\":1},\n {\"id\":null}]", lake.JSON, "id BIGINT", 2},
		{"strings stay strings", `{"zip":"01234","n":"12","t":"2024-1-2","b":"true","z":null}`, lake.JSON, "zip VARCHAR, n VARCHAR, t VARCHAR, b VARCHAR, z VARCHAR", 1},
		{"numbers too large", `{"big":99999999999999999999}`, lake.JSON, "big VARCHAR", 1},
		{"mixed", `{"x":1}` + "\n" + `{"x":"a"}`, lake.JSON, "x JSON", 2},
		{"sparse keys", strings.Repeat(`{"a":1}`+"\n", 200) + `{"b":{"c":true}}`, lake.JSON, "a BIGINT, b STRUCT(c BOOLEAN)", 201},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := c.Sniff(ctx, lake.SniffRequest{Path: writeFile(t, "x[1]*.dat", tc.content), Format: tc.format})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, shape(got.Columns)); d != "" {
				t.Error(d)
			}
			if got.Rows != tc.rows {
				t.Errorf("%d rows, wanted %d", got.Rows, tc.rows)
			}
		})
	}
}

func TestSniffParquet(t *testing.T) {
	c := newClient(t, nil)
	got, err := c.Sniff(ctx, lake.SniffRequest{Path: abs(t, "../testdata/parquet/dk.parquet"), Format: lake.Parquet})
	if err != nil {
		t.Fatal(err)
	}
	want := "i INTEGER, s VARCHAR, f DOUBLE, li BIGINT[], st STRUCT(x BIGINT), mp MAP(VARCHAR, BIGINT), u UUID, de DECIMAL(10,2), e VARCHAR, tz TIMESTAMP WITH TIME ZONE, h DOUBLE, iv INTERVAL, ti TIME, j JSON"
	if d := cmp.Diff(want, shape(got.Columns)); d != "" {
		t.Error(d)
	}
	if got.Rows != 4 {
		t.Errorf("%d rows", got.Rows)
	}
	st := got.Columns[4]
	if d := cmp.Diff([]lake.Column{{Name: "x", SQLType: "BIGINT", Type: "int64"}}, st.Children); d != "" || st.Type != "struct" {
		t.Errorf("%s %s", st.Type, d)
	}
	if el := got.Columns[3].Children; len(el) != 1 || el[0].Name != "element" || got.Columns[7].Type != "decimal(10,2)" {
		t.Errorf("%+v", got.Columns)
	}
}

func TestSniffRefuses(t *testing.T) {
	c := newClient(t, nil)
	for _, tc := range []struct {
		name, content string
		format        lake.Format
		line          int64
		want          string
	}{
		{"empty", "", lake.CSV, 0, "the file is empty"},
		{"only a mark", "\xef\xbb\xbf", lake.CSV, 0, "the file is empty"},
		{"blank header", "\na,b\n", lake.CSV, 1, "line 1: blank, but a header line is expected"},
		{"no name", "a,,b\n1,2,3\n", lake.CSV, 1, "line 1: column 2 has no name; a header line is expected"},
		{"same name", "a,A\n1,2\n", lake.CSV, 1, `line 1: two columns are called "A"`},
		{"data for a header", "1,2.5\n2,3.5\n", lake.CSV, 1, `line 1: a header line is expected, but "1" is a value`},
		{"few fields", "a,b\n1,\"x\ny\"\n3\n", lake.CSV, 4, "line 4: 1 fields, wanted 2"},
		{"many fields", "a,b\n1,2\n\n1,2,3\n", lake.CSV, 4, "line 4: 3 fields, wanted 2"},
		{"open quote", "a,b\n1,x\n2,\"y\n3,z\n", lake.CSV, 3, "line 3: a quote is opened and never closed"},
		{"text after a quote", "a,b\n1,\"x\"y\n", lake.CSV, 2, `line 2: "y" follows a closing quote`},
		{"not UTF-8", "a,b\n1,x\n2,M\xfcnchen\n", lake.CSV, 3, "line 3: field 2 is not UTF-8"},
		{"UTF-16", "\xff\xfea\x00,\x00", lake.CSV, 1, "line 1: the file is UTF-16, wanted UTF-8"},
		{"NUL", "a,b\n1,\x00\n", lake.CSV, 2, "line 2: a NUL byte: this is not text"},
		{"old line ends", "a,b\r1,2\r", lake.CSV, 1, "line 1: a carriage return without a line feed; lines must end in LF or CRLF"},
		{"both line ends", "a,b\n1,2\n3,4\r\n", lake.CSV, 3, "line 3: ends in CRLF, where the lines before end in LF"},
		{"compressed", "\x1f\x8b\x08\x00\x00\x00", lake.CSV, 1, "line 1: a NUL byte: this is not text"},

		{"no objects", "[1,2]", lake.JSON, 1, "line 1: wanted JSON objects, one a line or in one array"},
		{"empty array", " [ ]", lake.JSON, 0, "the array is empty, so there are no columns"},
		{"white space", " \n", lake.JSON, 0, "the file is empty"},
		{"no keys", "{}\n{}", lake.JSON, 0, "the file has no keys, so no columns"},
		{"cut off", "{\"id\":1}\n{\"id\":\n", lake.JSON, 2, "line 2: Malformed JSON: unexpected end of data"},
		{"no JSON", "{\"id\":1}\n{id:2}\n", lake.JSON, 2, "line 2: Malformed JSON: unexpected character"},
		{"key twice", `{"id":1}` + "\n" + `{"id":1,"id":2}`, lake.JSON, 2, "duplicate key"},
		{"keys by case", `{"id":1,"ID":2}`, lake.JSON, 0, "two keys differ only in case"},
		{"bad UTF-8 in JSON", "{\"a\":\"\xff\"}", lake.JSON, 1, "line 1: Malformed JSON: invalid UTF-8 encoding in string"},

		{"no Parquet", "a,b\n1,2\nxxxxxxxxxxxxxxxxxxxx", lake.Parquet, 0, "magic bytes"},
		{"Parquet head alone", "PAR1xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxPAR1", lake.Parquet, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := writeFile(t, "more.dat", tc.content)
			_, err := c.Sniff(ctx, lake.SniffRequest{Path: path, Format: tc.format})
			var v *lake.ValueError
			if !errors.As(err, &v) {
				t.Fatalf("%v", err)
			}
			if v.Line != tc.line || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "more.dat: ") {
				t.Errorf("line %d: %v", v.Line, err)
			}
			if strings.Contains(err.Error(), filepath.Dir(path)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("not one clean line: %q", err)
			}
		})
	}
	if _, err := c.Sniff(ctx, lake.SniffRequest{Path: "/nonexistent/x.csv", Format: lake.CSV}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func abs(t testing.TB, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// convert converts and reads the result.
func convert(t testing.TB, c *lake.Client, q lake.ConvertRequest) ([]string, error) {
	t.Helper()
	q.Dst = filepath.Join(t.TempDir(), "out [x].parquet")
	out, err := c.Convert(ctx, q)
	if err != nil {
		if _, serr := os.Stat(q.Dst); !errors.Is(serr, fs.ErrNotExist) {
			t.Errorf("a failed conversion left a file: %v", serr)
		}
		return nil, err
	}
	rows := texts(t, duck(t), "SELECT * FROM read_parquet('"+q.Dst+"')")
	st, err := os.Stat(q.Dst)
	if err != nil {
		t.Fatal(err)
	}
	if out.Rows != int64(len(rows)) || out.Bytes != st.Size() {
		t.Errorf("answered %+v for %d rows in %d bytes", out, len(rows), st.Size())
	}
	return rows, nil
}

func TestConvert(t *testing.T) {
	c := newClient(t, nil)
	for _, tc := range []struct {
		name, content string
		format        lake.Format
		columns       []lake.Column
		missing       []string
		want          []string
	}{
		{"CSV", "id,name,pop\n1,Ulm,126000\n2,\"a \"\"b\"\"\n c\",\n3, x ,\"\"\n", lake.CSV,
			cols("id BIGINT", "name VARCHAR", "pop BIGINT"), nil,
			[]string{"1|Ulm|126000", "2|a \"b\"\n c|NULL", "3| x |NULL"}},
		{"other order and case", "B,a\nx,1\n", lake.CSV, cols("A INTEGER", "b VARCHAR"), nil, []string{"1|x"}},
		{"missing column", "a\n1\n", lake.CSV, cols("a INTEGER", "b VARCHAR", "C DECIMAL(5,2)"), []string{"B", "c"}, []string{"1|NULL|NULL"}},
		{"no rows", "a\n", lake.CSV, cols("a INTEGER"), nil, nil},
		{"types", "a,b,c,d,e,f,g,h,i,j\n+007, 1.50 ,1e3,yes,2024-02-29 00:00:00,2024-01-01T01:00:00.120000000Z,2024-01-01 01:00:00+02,12:30,\"[1, 2]\",\"{\"\"k\"\": 1}\"\n", lake.CSV,
			cols("a SMALLINT", "b DECIMAL(9,2)", "c DOUBLE", "d BOOLEAN", "e DATE", "f TIMESTAMP", "g TIMESTAMP WITH TIME ZONE", "h TIME", "i BIGINT[]", "j JSON"), nil,
			[]string{`7|1.50|1000.0|true|2024-02-29|2024-01-01 01:00:00.12|2023-12-31 23:00:00+00|12:30:00|[1, 2]|{"k": 1}`}},
		{"nan", "a,b\nNaN,inf\n-Infinity,-0.0\n", lake.CSV, cols("a DOUBLE", "b FLOAT"), nil, []string{"nan|inf", "-inf|-0.0"}},
		{"text takes all", "a\n1_0\n\"\n\"\n", lake.CSV, cols("a VARCHAR"), nil, []string{"1_0", "\n"}},
		{"JSON", `{"id":1,"s":{"a":1,"b":["x"]},"t":"2024-01-02T03:04:05Z","n":1.0}` + "\n" + `{"s":null,"id":null,"m":7}`, lake.JSON,
			cols("n BIGINT", "id BIGINT", "s STRUCT(a BIGINT, b VARCHAR[])", "t TIMESTAMP", "m VARCHAR"), nil, nil},
		{"JSON to text", `{"a":1.5}` + "\n" + `{"a":"x"}` + "\n" + `{"a":{"b":[1]}}` + "\n" + `{"a":true}`, lake.JSON,
			cols("a VARCHAR"), nil, []string{"1.5", "x", `{"b":[1]}`, "true"}},
		{"JSON to JSON", `{"a":1.5}` + "\n" + `{"a":"x"}`, lake.JSON, cols("a JSON"), nil, []string{"1.5", `"x"`}},
		{"JSON wider inside", `[{"l":[1,2]},{"l":[3]}]`, lake.JSON, cols("l DOUBLE[]"), nil, []string{"[1.0, 2.0]", "[3.0]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := writeFile(t, "more.dat", tc.content)
			got, err := convert(t, c, lake.ConvertRequest{Src: src, Format: tc.format, Columns: tc.columns, Missing: tc.missing})
			if tc.name == "JSON" { // 1.0 is no text of an integer: as in CSV
				var v *lake.ValueError
				if !errors.As(err, &v) || v.Line != 1 || v.Column != "n" {
					t.Errorf("%v", err)
				}
				tc.columns[0].SQLType = "DOUBLE"
				tc.want = []string{"1.0|1|{'a': 1, 'b': [x]}|2024-01-02 03:04:05|NULL", "NULL|NULL|NULL|NULL|7"}
				got, err = convert(t, c, lake.ConvertRequest{Src: src, Format: tc.format, Columns: tc.columns, Missing: tc.missing})
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Each value of a dropped file is in its column unchanged, or named.
func TestConvertRefuses(t *testing.T) {
	c := newClient(t, nil)
	towns := "id,name,pop\n" + strings.Repeat("1,Ulm,5\n", 15) + "2,Jena,n/a\n3,Gera,x\n"
	for _, tc := range []struct {
		name, content string
		format        lake.Format
		columns       []lake.Column
		want          lake.ValueError
	}{
		{"the transcript", towns, lake.CSV, cols("id BIGINT", "name VARCHAR", "pop BIGINT"),
			lake.ValueError{Line: 17, Column: "pop", Value: "n/a", Wanted: "BIGINT"}},
		{"after quoted lines and blanks", "a,b\r\n1,\"x\r\n\ny\"\r\n\r\n\r\nz,q\r\n", lake.CSV, cols("a BIGINT", "b VARCHAR"),
			lake.ValueError{Line: 7, Column: "a", Value: "z", Wanted: "BIGINT"}},
		{"late", "a\n" + strings.Repeat("1\n", 300_000) + "no\n", lake.CSV, cols("a BIGINT"),
			lake.ValueError{Line: 300_002, Column: "a", Value: "no", Wanted: "BIGINT"}},
		{"would be rounded", "a\n1.5\n", lake.CSV, cols("a BIGINT"), lake.ValueError{Line: 2, Column: "a", Value: "1.5", Wanted: "BIGINT"}},
		{"would be cut", "a\n1.239\n", lake.CSV, cols("a DECIMAL(18,2)"), lake.ValueError{Line: 2, Column: "a", Value: "1.239", Wanted: "DECIMAL(18,2)"}},
		{"too large", "a\n300\n", lake.CSV, cols("a TINYINT"), lake.ValueError{Line: 2, Column: "a", Value: "300", Wanted: "TINYINT"}},
		{"negative", "a\n-1\n", lake.CSV, cols("a UBIGINT"), lake.ValueError{Line: 2, Column: "a", Value: "-1", Wanted: "UBIGINT"}},
		{"hexadecimal", "a\n0x10\n", lake.CSV, cols("a BIGINT"), lake.ValueError{Line: 2, Column: "a", Value: "0x10", Wanted: "BIGINT"}},
		{"would lose the hour", "a\n2024-01-02 10:00\n", lake.CSV, cols("a DATE"), lake.ValueError{Line: 2, Column: "a", Value: "2024-01-02 10:00", Wanted: "DATE"}},
		{"would lose the zone", "a\n2024-01-02 10:00:00+05\n", lake.CSV, cols("a TIMESTAMP"), lake.ValueError{Line: 2, Column: "a", Value: "2024-01-02 10:00:00+05", Wanted: "TIMESTAMP"}},
		{"would lose nanoseconds", "a\n2024-01-02 10:00:00.1234567\n", lake.CSV, cols("a TIMESTAMP"), lake.ValueError{Line: 2, Column: "a", Value: "2024-01-02 10:00:00.1234567", Wanted: "TIMESTAMP"}},
		{"no such day", "a\n2023-02-29\n", lake.CSV, cols("a DATE"), lake.ValueError{Line: 2, Column: "a", Value: "2023-02-29", Wanted: "DATE"}},
		{"infinite by size", "a\n1e400\n", lake.CSV, cols("a DOUBLE"), lake.ValueError{Line: 2, Column: "a", Value: "1e400", Wanted: "DOUBLE"}},
		{"no place in Parquet", "a\n9007199254740993\n", lake.CSV, cols("a HUGEINT"), lake.ValueError{Line: 2, Column: "a", Value: "9007199254740993", Wanted: "HUGEINT"}},
		{"blank", "a,b\n ,x\n", lake.CSV, cols("a BIGINT", "b VARCHAR"), lake.ValueError{Line: 2, Column: "a", Value: " ", Wanted: "BIGINT"}},
		{"column missing", "a\n1\n", lake.CSV, cols("a BIGINT", "b VARCHAR"), lake.ValueError{Column: "b", Wanted: "VARCHAR", Reason: "column b is missing"}},
		{"column not wanted", "a,b\n1,2\n", lake.CSV, cols("a BIGINT"), lake.ValueError{Column: "b", Reason: "column b is not in the table"}},
		{"fields", "a,b\n1,2\n3\n", lake.CSV, cols("a BIGINT", "b BIGINT"), lake.ValueError{Line: 3, Reason: "line 3: 1 fields, wanted 2"}},
		{"JSON line", `{"a":1}` + "\n\n" + `{"a":1.5}`, lake.JSON, cols("a BIGINT"), lake.ValueError{Line: 3, Column: "a", Value: "1.5", Wanted: "BIGINT"}},
		{"JSON array", "\n[{\"a\":1},\n{\"a\":\n\"x\"}]", lake.JSON, cols("a BIGINT"), lake.ValueError{Line: 3, Column: "a", Value: "x", Wanted: "BIGINT"}},
		{"JSON inside", `{"a":[1,2]}` + "\n" + `{"a":[1.5]}`, lake.JSON, cols("a BIGINT[]"), lake.ValueError{Line: 2, Column: "a", Value: "[1.5]", Wanted: "BIGINT[]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := convert(t, c, lake.ConvertRequest{Src: writeFile(t, "more.csv", tc.content), Format: tc.format, Columns: tc.columns})
			var v *lake.ValueError
			if !errors.As(err, &v) {
				t.Fatalf("%v", err)
			}
			if d := cmp.Diff(tc.want, *v); d != "" {
				t.Error(d)
			}
			if tc.name == "the transcript" && err.Error() != `more.csv: line 17, column pop: "n/a" is not a BIGINT` {
				t.Errorf("%s", err)
			}
		})
	}
}

func TestConvertParquet(t *testing.T) {
	c := newClient(t, nil)
	src := filepath.Join(t.TempDir(), "src.parquet")
	duck(t, "COPY (SELECT 'x' AS s, 5::SMALLINT AS n, {'a': 1::INTEGER, 'b': [1::INTEGER]} AS st, 7::BIGINT AS _ducklake_internal_row_id UNION ALL SELECT 'y', 6, NULL, 8) TO '"+src+"' (FORMAT parquet)")
	st := lake.Column{Name: "st", SQLType: "STRUCT(a BIGINT, b INTEGER[])", FieldID: 3, Children: []lake.Column{
		{Name: "a", SQLType: "BIGINT", FieldID: 4}, {Name: "b", SQLType: "INTEGER[]", FieldID: 5, Children: []lake.Column{{Name: "element", SQLType: "INTEGER", FieldID: 6}}}}}
	q := lake.ConvertRequest{Src: src, Format: lake.Parquet, Columns: append(cols("n BIGINT", "s VARCHAR"), st)}
	got, err := convert(t, c, q)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"5|x|{'a': 1, 'b': [1]}", "6|y|NULL"}, got); d != "" {
		t.Error(d)
	}
	q.Dst = filepath.Join(t.TempDir(), "ids.parquet")
	if _, err := c.Convert(ctx, q); err != nil {
		t.Fatal(err)
	}
	ids := texts(t, duck(t), "SELECT name, field_id FROM parquet_schema('"+q.Dst+"') WHERE field_id IS NOT NULL")
	if d := cmp.Diff([]string{"n|1", "s|2", "st|3", "a|4", "b|5", "element|6"}, ids); d != "" {
		t.Error(d)
	}
	codec := texts(t, duck(t), "SELECT DISTINCT compression FROM parquet_metadata('"+q.Dst+"')")
	if d := cmp.Diff([]string{"ZSTD"}, codec); d != "" {
		t.Error(d)
	}
	if _, err := c.Convert(ctx, q); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto a file: %v", err)
	}
	q.Columns[0].SQLType = "BIGINT"
	duck(t, "COPY (SELECT 1.5::DOUBLE AS n, 'x' AS s, NULL::STRUCT(a BIGINT, b INTEGER[]) AS st) TO '"+src+"2' (FORMAT parquet)")
	q.Src = src + "2"
	_, err = convert(t, c, q)
	var v *lake.ValueError
	if !errors.As(err, &v) || v.Column != "n" || !strings.Contains(err.Error(), `row 1, column n: "1.5" is not a BIGINT`) {
		t.Errorf("%v", err)
	}
}

// Rows keep the order of the file, whatever the number of threads.
func TestConvertKeepsOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	c := newClient(t, nil)
	for format, header := range map[lake.Format]string{lake.CSV: "i,s\n", lake.JSON: ""} {
		var b strings.Builder
		b.WriteString(header)
		const n = 300_000
		for i := range n {
			if format == lake.CSV {
				fmt.Fprintf(&b, "%d,v%d\n", i, i*7)
			} else {
				fmt.Fprintf(&b, "{\"i\":%d,\"s\":\"v%d\"}\n", i, i*7)
			}
		}
		dst := filepath.Join(t.TempDir(), "o.parquet")
		if _, err := c.Convert(ctx, lake.ConvertRequest{Src: writeFile(t, "x", b.String()), Format: format, Dst: dst, Columns: cols("i BIGINT", "s VARCHAR")}); err != nil {
			t.Fatal(err)
		}
		got := texts(t, duck(t), "SELECT count(*), count(*) FILTER (i = file_row_number) FROM read_parquet('"+dst+"', file_row_number=true)")
		if d := cmp.Diff([]string{fmt.Sprintf("%d|%d", n, n)}, got); d != "" {
			t.Errorf("%s: %s", format, d)
		}
	}
}
