package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Types of columns. A column's type follows from its name, so that files of
// one table agree, unless they are made not to.
const (
	bigint  = "BIGINT"
	integer = "INTEGER"
	double  = "DOUBLE"
	varchar = "VARCHAR"
)

// typeOf says the type by the first letter of the name.
func typeOf(column string) string {
	switch column[0] {
	case 'n':
		return varchar
	case 'x':
		return double
	}
	return bigint
}

// Forms of a dropped file. The last ones are no data.
const (
	formCSV     = "csv"
	formJSON    = "jsonl"
	formArray   = "json"
	formParquet = "parquet"
	formNarrow  = "parquet32" // BIGINT columns as INTEGER
	formValue   = "value"     // CSV with a text in a BIGINT column
	formGarbage = "garbage"   // named .parquet, and is not
	formCut     = "cut"       // Parquet without its end
	formEmpty   = "empty"     // 0 bytes, named .csv
	formDeep    = "deep"      // CSV in a folder inside the table's
	formJunk    = "junk"      // never data
)

var badForms = []string{formValue, formGarbage, formCut, formEmpty, formDeep}

// Content is what a dropped file holds: its bytes follow from these fields.
type Content struct {
	Form string
	Cols string // names, joined with ','
	Rows int
	Salt int // other salts give other rows
}

// columns are the names in the order of the file. Parquet has them sorted.
func (c Content) columns() []string {
	cols := strings.Split(c.Cols, ",")
	if c.Form == formParquet || c.Form == formNarrow {
		slices.Sort(cols)
	}
	return cols
}

// typeIn is the type that the file gives a column.
func (c Content) typeIn(column string) string {
	if t := typeOf(column); t != bigint || c.Form != formNarrow {
		return t
	}
	return integer
}

func (c Content) bad() bool  { return slices.Contains(badForms, c.Form) }
func (c Content) text() bool { return c.Form == formCSV || c.Form == formJSON || c.Form == formArray }

// null stands for NULL among values; "NULL" is also a text, which is quoted.
const null = "NULL"

// value is column col of row i. Rows repeat, so that multisets matter. The
// first row has no NULL: text whose every value is NULL tells no type.
func (c Content) value(col string, i int) string {
	n := c.Salt*7 + i/2
	if i > 0 && (n+int(col[0]))%5 == 0 {
		return null
	}
	switch typeOf(col) {
	case varchar:
		words := []string{"Aarau", "Chur, at the Rhine", `a "quoted" name`, "Zürich", "it's", "NULL", "two\nlines"}
		return strconv.Quote(words[n%len(words)] + " " + strconv.Itoa(n))
	case double:
		return strconv.FormatFloat(float64(n)+0.25, 'g', -1, 64)
	}
	return strconv.Itoa(n - 40)
}

// Table gives the rows, each a map from column to value.
func (c Content) Table() []map[string]string {
	var out []map[string]string
	for i := range c.Rows {
		row := map[string]string{}
		for _, col := range c.columns() {
			row[col] = c.value(col, i)
		}
		out = append(out, row)
	}
	return out
}

// Bytes are the file's bytes, the same at each call.
func (c Content) Bytes() []byte {
	switch c.Form {
	case formCSV, formDeep:
		return c.csv()
	case formJSON, formArray:
		return c.json()
	case formParquet, formNarrow:
		return c.parquet()
	case formValue:
		return append(c.csv(), strings.Repeat("n/a,", strings.Count(c.Cols, ","))+"n/a\n"...)
	case formGarbage:
		return fmt.Appendf(nil, "PAR1 this is no Parquet file %d PAR1", c.Salt)
	case formCut:
		b := Content{Form: formParquet, Cols: c.Cols, Rows: c.Rows, Salt: c.Salt}.parquet()
		return b[:len(b)-9]
	case formJunk:
		return fmt.Appendf(nil, "junk %d\n", c.Salt)
	}
	return nil
}

func (c Content) csv() []byte {
	var b bytes.Buffer
	b.WriteString(c.Cols + "\n")
	for _, row := range c.Table() {
		for i, col := range c.columns() {
			if i > 0 {
				b.WriteByte(',')
			}
			v := row[col]
			if text, err := strconv.Unquote(v); err == nil {
				v = `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
			} else if v == null {
				v = ""
			}
			b.WriteString(v)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func (c Content) json() []byte {
	var b bytes.Buffer
	sep := "\n"
	if c.Form == formArray {
		sep = ",\n"
	}
	for i, row := range c.Table() {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteByte('{')
		for j, col := range c.columns() {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%s", col, jsonValue(row[col]))
		}
		b.WriteByte('}')
	}
	if c.Form == formArray {
		return []byte("[" + b.String() + "]\n")
	}
	return append(b.Bytes(), '\n')
}

func jsonValue(v string) string {
	if v == null {
		return "null"
	}
	if text, err := strconv.Unquote(v); err == nil {
		b, err := json.Marshal(text)
		if err == nil {
			return string(b)
		}
	}
	return v
}

func (c Content) parquet() []byte {
	group := parquet.Group{}
	for _, col := range c.columns() {
		var n parquet.Node
		switch c.typeIn(col) {
		case varchar:
			n = parquet.String()
		case double:
			n = parquet.Leaf(parquet.DoubleType)
		case integer:
			n = parquet.Int(32)
		default:
			n = parquet.Int(64)
		}
		group[col] = parquet.Optional(n)
	}
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.NewSchema("rows", group), parquet.Compression(&parquet.Snappy))
	for _, row := range c.Table() {
		var r parquet.Row
		for i, col := range c.columns() {
			r = append(r, c.parquetValue(col, row[col]).Level(0, level(row[col]), i))
		}
		// Writes go to memory: the only error would be a schema that does not fit.
		if _, err := w.WriteRows([]parquet.Row{r}); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func level(v string) int {
	if v == null {
		return 0
	}
	return 1
}

func (c Content) parquetValue(col, v string) parquet.Value {
	if v == null {
		return parquet.NullValue()
	}
	switch c.typeIn(col) {
	case varchar:
		text, err := strconv.Unquote(v)
		if err != nil {
			panic(err)
		}
		return parquet.ByteArrayValue([]byte(text))
	case double:
		f, _ := strconv.ParseFloat(v, 64)
		return parquet.DoubleValue(f)
	case integer:
		n, _ := strconv.ParseInt(v, 10, 32)
		return parquet.Int32Value(int32(n))
	}
	n, _ := strconv.ParseInt(v, 10, 64)
	return parquet.Int64Value(n)
}
