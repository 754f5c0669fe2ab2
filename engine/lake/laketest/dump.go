package laketest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// Load makes a desk from the INSERT lines of a SQLite dump.
func Load(t testing.TB, path string) *Desk {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &Desk{Rows: map[string][]catalog.Row{}, Inlined: map[string]int64{}}
	for line := range strings.SplitSeq(string(text), "\n") {
		rest, ok := strings.CutPrefix(line, "INSERT INTO ")
		if !ok {
			continue
		}
		name, values, ok := strings.Cut(strings.TrimSuffix(rest, ");"), " VALUES (")
		if !ok {
			t.Fatalf("%s: %s", path, line)
		}
		name = strings.Trim(name, `"`)
		if strings.HasPrefix(name, "ducklake_inlined_data_") && name != "ducklake_inlined_data_tables" || strings.HasPrefix(name, "ducklake_inlined_delete_") {
			d.Inlined[name]++
			continue
		}
		table := catalog.Lookup(name)
		if table == nil {
			t.Fatalf("%s: no table %s", path, name)
		}
		row, err := parseRow(table, values)
		if err != nil {
			t.Fatalf("%s: %s: %v", path, line, err)
		}
		d.Add(table.Name, row)
	}
	return d
}

func parseRow(table *catalog.Table, values string) (catalog.Row, error) {
	var row catalog.Row
	for i := 0; i < len(values); {
		j, quoted := i, false
		for ; j < len(values) && (quoted || values[j] != ','); j++ {
			if values[j] == '\'' {
				quoted = !quoted
			}
		}
		if len(row) == len(table.Columns) {
			return nil, fmt.Errorf("more than %d values", len(row))
		}
		v, err := parseValue(table.Columns[len(row)].Type, values[i:j])
		if err != nil {
			return nil, err
		}
		row = append(row, v)
		i = j + 1
	}
	return row, nil
}

func parseValue(typ catalog.Type, s string) (any, error) {
	if s == "NULL" {
		return nil, nil
	}
	text := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(s, "'"), "'"), "''", "'")
	switch typ {
	case catalog.BigInt:
		return strconv.ParseInt(s, 10, 64)
	case catalog.Boolean:
		return s == "1", nil
	case catalog.TimestampTZ:
		at, err := time.Parse("2006-01-02 15:04:05.999999999Z07", text)
		return at.UTC().Format(catalog.TimeLayout), err
	}
	return text, nil
}

// Dump writes every row as a line, in the order of the catalog store, so that
// two desks can be compared and the change between them read.
func (d *Desk) Dump(t testing.TB) []string {
	t.Helper()
	var out []string
	x := d.Begin().(*tx)
	for _, table := range catalog.Tables {
		rows, err := x.find(table, lake.Where{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			out = append(out, table.Name+" "+rowText(r))
		}
	}
	for _, n := range d.Names {
		out = append(out, fmt.Sprintf("tarn_file (%q,%d,%q,%q)", n.StageID, n.DataFileID, n.Name, n.SHA256))
	}
	return out
}

func rowText(r catalog.Row) string {
	cells := make([]string, len(r))
	for i, v := range r {
		switch v := v.(type) {
		case nil:
			cells[i] = "NULL"
		case string:
			cells[i] = "'" + strings.ReplaceAll(v, "'", "''") + "'"
		case bool:
			cells[i] = map[bool]string{false: "0", true: "1"}[v]
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	return "(" + strings.Join(cells, ",") + ")"
}

// Changed is what differs between two dumps: lines gone with -, new ones with +.
func Changed(before, after []string) []string {
	count := map[string]int{}
	for _, l := range before {
		count[l]++
	}
	var plus []string
	for _, l := range after {
		if count[l] > 0 {
			count[l]--
		} else {
			plus = append(plus, "+"+l)
		}
	}
	var minus []string
	for _, l := range slices.Compact(slices.Sorted(slices.Values(before))) {
		for range count[l] {
			minus = append(minus, "-"+l)
		}
	}
	return append(minus, plus...)
}

// SQL writes the desk as statements for SQLite, to show it to a real client.
func (d *Desk) SQL() string {
	var b strings.Builder
	b.WriteString("BEGIN;\n")
	for _, table := range catalog.Tables {
		b.WriteString(catalog.SQLiteDDL(table) + ";\n")
		for _, r := range d.Rows[table.Name] {
			fmt.Fprintf(&b, "INSERT INTO %s VALUES %s;\n", table.SQLName(), rowText(r))
		}
	}
	b.WriteString("COMMIT;\n")
	return b.String()
}
