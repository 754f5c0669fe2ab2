package worker

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/lake"
)

func TestStatement(t *testing.T) {
	for in, want := range map[string]string{
		"SELECT 1": "SELECT 1", "SELECT 1;": "SELECT 1", "SELECT 1 ; -- c": "SELECT 1 ", "SELECT ';'; ": "SELECT ';'",
		`SELECT "a;b" ;`: `SELECT "a;b" `, "SELECT 'it''s;' ;": "SELECT 'it''s;' ", `SELECT e'\';' ;`: `SELECT e'\';' `,
		"SELECT $$;$$;": "SELECT $$;$$", "SELECT $a$;$b$;$a$;": "SELECT $a$;$b$;$a$", "SELECT $1;": "SELECT $1",
		"SELECT 1 /* ; /* ; */ ; */;": "SELECT 1 /* ; /* ; */ ; */", "SELECT 1 -- ;\n;": "SELECT 1 -- ;\n",
		"SELECT name'x;'": "SELECT name'x;'", "SELECT 'open": "SELECT 'open", "": "",
	} {
		if got := statement(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	ctx := context.Background()
	texts := []string{
		"FROM a.b.Towns JOIN u USING (x)", "WITH c AS (SELECT * FROM t) SELECT (SELECT max(x) FROM v) FROM c",
		"SHOW TABLES", "DESCRIBE t", "SELECT * FROM information_schema.tables", "FROM duckdb_tables()",
		"SELECT 1; SELECT 2", "COPY t TO 'x'", "FROM read_parquet('x')", "SELECT * FROM t, (SELECT * FROM Enable_Logging())", "SELEC",
	}
	got, err := parse(ctx, limits{}, lake.ParseRequest{SQL: texts})
	if err != nil {
		t.Fatal(err)
	}
	want := []lake.Parsed{
		{Tables: []string{"Towns", "u"}}, {Tables: []string{"c", "t", "v"}}, {List: true}, {Tables: []string{"t"}},
		{Tables: []string{"tables"}, List: true}, {List: true},
	}
	if d := cmp.Diff(want, got[:len(want)]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for i, p := range got[len(want):] {
		if p.Refused == "" {
			t.Errorf("%s passes", texts[len(want)+i])
		}
	}
}

// A box of more rows than are kept to measure goes on in the same widths.
func TestBoxOfManyRows(t *testing.T) {
	var b bytes.Buffer
	s := &textSender{out: lake.NewPipe(eof{}, &b)}
	w := newBoxWriter(s, []described{{"n", "BIGINT"}, {"s", "VARCHAR"}})
	in := strings.Repeat("1,a\n", boxRows) + "2,\"far wider than what came before\"\n3,\"tab\tand\x1b\"\n"
	if err := w.take(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	got := string(s.buf)
	for _, want := range []string{"│      1 │ a       │\n", "│      2 │ far wider than what came before │\n", `tab\tand` + "\uFFFD", "1002 rows\n"} {
		if !strings.Contains(got+b.String(), want) {
			t.Errorf("no %q in the box", want)
		}
	}
}
