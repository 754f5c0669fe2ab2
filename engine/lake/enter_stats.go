package lake

import (
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/parquet"
)

// tableTotals carries table_stats and table_column_stats of one table over the
// files that enter it.
//
// A table_column_stats row is written only while it is exact over every file
// the table ever had: DuckDB answers min() from it, drops filters by it and
// sorts by it, so bounds that are too narrow lose rows. What is not known has
// no row; a row without bounds would be worse, because the next INSERT of
// DuckDB would take it for "no value so far".
type tableTotals struct {
	w       *writer
	tableID int64
	parts   *tableParts
	isNew   bool // no row was ever in the table

	files       int // of this plan, so far
	rows, bytes int64
	nextRowID   int64
	columns     map[int64]*columnTotals
	order       []int64
}

// columnTotals is what becomes of one table_column_stats row.
type columnTotals struct {
	old      *catalog.TableColumnStatsRow
	row      catalog.TableColumnStatsRow
	unknown  bool // no row may stand
	bounded  bool
	hasNulls bool
	seen     int // files of this plan that have the column
}

func newTableTotals(w *writer, t *planTable, id int64) *tableTotals {
	a := &tableTotals{w: w, tableID: id, parts: &tableParts{}, isNew: true, columns: map[int64]*columnTotals{}}
	if t.state != nil {
		a.parts = w.st.partsOf(id)
		a.nextRowID = a.parts.nextRowID
		a.isNew = !a.parts.everFiles && a.parts.nextRowID == 0
	}
	return a
}

// add counts one file.
func (a *tableTotals) add(rows, bytes int64) {
	a.files++
	a.rows += rows
	a.bytes += bytes
	a.nextRowID += rows
}

// addLeaf folds one leaf of one file in.
func (a *tableTotals) addLeaf(c *planColumn, s parquet.LeafStats) {
	t := a.columns[c.id]
	if t == nil {
		t = a.open(c)
		a.columns[c.id] = t
		a.order = append(a.order, c.id)
	}
	t.seen++
	if s.NullCount == nil {
		t.unknown = true
		return
	}
	if *s.NullCount > 0 {
		t.hasNulls = true
	}
	if s.Min == nil {
		// a file without any value bounds nothing and widens nothing
		if *s.ValueCount > 0 {
			t.unknown = true
		}
		return
	}
	if !t.bounded {
		t.bounded, t.row.MinValue, t.row.MaxValue = true, s.Min, s.Max
		return
	}
	lo, okLo := lesser(c.typ, *s.Min, *t.row.MinValue)
	hi, okHi := lesser(c.typ, *t.row.MaxValue, *s.Max)
	if !okLo || !okHi {
		t.unknown = true
		return
	}
	if lo {
		t.row.MinValue = s.Min
	}
	if hi {
		t.row.MaxValue = s.Max
	}
}

// open starts the row of a column from what the catalog says now.
func (a *tableTotals) open(c *planColumn) *columnTotals {
	t := &columnTotals{row: catalog.TableColumnStatsRow{TableID: a.tableID, ColumnID: c.id}}
	old, ok := a.parts.columnStats[c.id]
	switch {
	case ok:
		t.old, t.row = &old, old
		t.bounded = old.MinValue != nil && old.MaxValue != nil
		t.hasNulls = old.ContainsNull != nil && *old.ContainsNull
		// without bounds or with an unknown NULL count the past is unknown
		t.unknown = !t.bounded || old.ContainsNull == nil
	case !a.isNew && c.state != nil:
		t.unknown = true // older files have the column, and nothing is known of them
	case !a.isNew || a.files > 1:
		t.hasNulls = true // files before this one lack the column: NULL
	}
	if c.typ == "float64" && a.w.st.floats[columnKey{a.tableID, c.id}] {
		t.unknown = true // bounds that were written as FLOAT are too narrow as DOUBLE
	}
	if c.typ == "blob" {
		t.unknown = true // its text has two forms; DuckDB's INSERT compares with the other one
	}
	return t
}

// endFile notes the columns that a file of this plan did not have.
func (a *tableTotals) endFile() {
	for _, t := range a.columns {
		if t.seen < a.files {
			t.hasNulls = true
		}
	}
}

// write adds the rows to the snapshot.
func (a *tableTotals) write() {
	row := catalog.TableStatsRow{TableID: a.tableID, RecordCount: a.rows, NextRowID: a.nextRowID, FileSizeBytes: a.bytes}
	if old := a.parts.stats; old != nil {
		row.RecordCount += old.RecordCount
		row.FileSizeBytes += old.FileSizeBytes
		updateRow(a.w, "table_stats", *old, row)
	} else {
		row.RecordCount += a.parts.grossRows
		row.FileSizeBytes += a.parts.grossBytes
		insertRow(a.w, "table_stats", row)
	}
	for _, id := range a.order {
		a.columns[id].write(a.w)
	}
}

func (t *columnTotals) write(w *writer) {
	if t.unknown || !t.bounded {
		if t.old != nil {
			deleteRow(w, "table_column_stats", *t.old)
		}
		return
	}
	t.row.ContainsNull = catalog.Ptr(t.hasNulls)
	// a footer does not say whether there is a NaN: known-false is no longer known
	if t.row.ContainsNan != nil && !*t.row.ContainsNan {
		t.row.ContainsNan = nil
	}
	switch {
	case t.old == nil:
		insertRow(w, "table_column_stats", t.row)
	case !reflect.DeepEqual(*t.old, t.row):
		updateRow(w, "table_column_stats", *t.old, t.row)
	}
}

// lesser compares two bounds of a DuckLake type by value; ok is false when
// either is not in a form whose order is certain.
func lesser(typ, a, b string) (less, ok bool) {
	typ = canonical(typ)
	switch typ {
	case "boolean":
		x, okX := boolOf(a)
		y, okY := boolOf(b)
		return !x && y, okX && okY
	case "float32", "float64":
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		return x < y, errX == nil && errY == nil && x == x && y == y
	case "varchar", "json", "uuid":
		return a < b, true
	case "date", "time", "timestamp", "timestamp_ms", "timestamp_s", "timestamp_ns":
		return a < b, plainTime(typ, a) && plainTime(typ, b)
	case "timestamptz":
		x, zoneX := strings.CutSuffix(a, "+00")
		y, zoneY := strings.CutSuffix(b, "+00")
		return x < y, zoneX && zoneY && plainTime("timestamp", x) && plainTime("timestamp", y)
	}
	if strings.HasPrefix(typ, "int") || strings.HasPrefix(typ, "uint") || strings.HasPrefix(typ, "decimal") {
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		if !okX || !okY || len(a) > 64 || len(b) > 64 {
			return false, false
		}
		return x.Cmp(y) < 0, true
	}
	return false, false
}

func boolOf(s string) (bool, bool) {
	switch s {
	case "0", "false":
		return false, true
	case "1", "true":
		return true, true
	}
	return false, false
}

// plainTime says whether a date or time stands in the form whose text sorts as
// its value: four-digit years after Christ, no zone, no infinity.
func plainTime(typ, s string) bool {
	shape := "0000-00-00 00:00:00"
	switch typ {
	case "date":
		shape = "0000-00-00"
	case "time":
		shape = "00:00:00"
	}
	if len(s) < len(shape) || typ == "date" && len(s) != len(shape) {
		return false
	}
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	for i := range len(shape) {
		if shape[i] == '0' && !digit(s[i]) || shape[i] != '0' && s[i] != shape[i] {
			return false
		}
	}
	rest := s[len(shape):]
	if rest == "" {
		return true
	}
	if rest[0] != '.' || len(rest) == 1 {
		return false
	}
	for i := 1; i < len(rest); i++ {
		if !digit(rest[i]) {
			return false
		}
	}
	return true
}
