package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/tarnfs/tarn/engine/lake"
)

// jsonOptions: look at every row and all depths, never guess a MAP from a
// struct with many fields, and read no dates into strings (that is decided
// from all values, see infer).
const jsonOptions = `format='auto', records=true, sample_size=-1, maximum_depth=-1, map_inference_threshold=-1,
	field_appearance_threshold=0, compression='uncompressed', dateformat='(none)%Y', timestampformat='(none)%Y'`

// openJSON reads scalars as text, so that 1.5 for a BIGINT is seen and not
// rounded, and nested values as what DuckDB finds in them.
func openJSON(ctx context.Context, d *duck, path string, wanted []lake.Column) (*source, error) {
	if err := checkJSONStart(path); err != nil {
		return nil, err
	}
	cols, err := d.describe(ctx, "SELECT * FROM read_json("+text(path)+", "+jsonOptions+")")
	if q := new(queryError); errors.As(err, &q) && strings.Contains(q.msg, "expected records") {
		return nil, &lake.ValueError{Reason: "the file has no keys, so no columns"}
	}
	if err != nil {
		return nil, contentError(err, path)
	}
	s := &source{rows: -1}
	var types []string
	for _, c := range cols {
		t, err := parseType(c.typ)
		if err != nil {
			return nil, &lake.ValueError{Column: c.name, Reason: fmt.Sprintf("key %s holds %s, which no table can hold", c.name, c.typ)}
		}
		col := sourceColumn{name: c.name, expr: ident(c.name), typ: t, json: t}
		if len(t.children) == 0 && (t.name != "JSON" || wantedScalar(wanted, c.name)) {
			col.typ = typ{name: "VARCHAR"}
		}
		s.columns = append(s.columns, col)
		types = append(types, text(c.name)+": "+text(col.typ.sql()))
	}
	if len(types) == 0 {
		return nil, &lake.ValueError{Reason: "the file has no keys, so no columns"}
	}
	s.from = fmt.Sprintf("read_json(%s, format='auto', records=true, compression='uncompressed', columns={%s})", text(path), strings.Join(types, ", "))
	s.line = func(n int64) (int64, error) { return jsonLine(path, n) }
	return s, nil
}

// wantedScalar says whether a key that holds a mixture is read for a column
// that is neither JSON nor nested.
func wantedScalar(wanted []lake.Column, name string) bool {
	for _, w := range wanted {
		if strings.EqualFold(w.Name, name) {
			t, err := typeOf(w)
			return err == nil && t.name != "JSON" && len(t.children) == 0
		}
	}
	return false
}

// jsonCandidates says what a scalar may become: a JSON number never a date, a
// JSON string never a number.
func (s *source) jsonCandidates(open [][]string) {
	for i, c := range s.columns {
		if c.typ.name != "VARCHAR" {
			continue
		}
		switch c.json.name {
		case "BOOLEAN":
			open[i] = []string{"BOOLEAN"}
		case "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DOUBLE":
			open[i] = []string{"BIGINT", "DOUBLE"}
		default:
			open[i] = []string{"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}
		}
	}
}

// checkJSONStart refuses what is not objects, one after the other or in one array.
func checkJSONStart(path string) error {
	head, err := readHead(path, 64<<10)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return &lake.ValueError{Line: 1, Reason: "line 1: the file is UTF-16, wanted UTF-8"}
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case len(head) == 0:
		return &lake.ValueError{Reason: "the file is empty"}
	case head[0] == '{':
		return nil
	case head[0] == '[':
		rest := bytes.TrimLeft(head[1:], " \t\r\n")
		if len(rest) > 0 && rest[0] == '{' {
			return nil
		}
		if len(rest) > 0 && rest[0] == ']' {
			return &lake.ValueError{Reason: "the array is empty, so there are no columns"}
		}
	}
	return &lake.ValueError{Line: 1, Reason: "line 1: wanted JSON objects, one a line or in one array"}
}

// jsonLine finds the line on which object number n (from 1) starts.
func jsonLine(path string, n int64) (line int64, err error) {
	err = jsonObjects(path, func(i, at int64, _ []byte) bool {
		line = at
		return i < n
	})
	return line, err
}

// malformedJSON finds the line of the first object that is no JSON: DuckDB's
// number is one too large here, and there is none for an array.
func malformedJSON(path, reason string) (int64, string) {
	var line int64
	words, _, _ := strings.Cut(reason, " at byte ")
	if _, after, ok := strings.Cut(reason, ": "); ok {
		words += ": " + after
	}
	err := jsonObjects(path, func(_, at int64, raw []byte) bool {
		if !utf8.Valid(raw) { // which Go reads all the same
			line = at
		}
		return line == 0
	})
	var bad *jsonFault
	if errors.As(err, &bad) {
		line = bad.line
	}
	return line, words
}

// jsonFault is a place that Go cannot read either.
type jsonFault struct {
	line int64
	err  error
}

func (e *jsonFault) Error() string { return e.err.Error() }

func (e *jsonFault) Unwrap() error { return e.err }

// jsonObjects calls fn with the number, the line and the text of each object
// until it returns false. Only a failed file is read so.
func jsonObjects(path string, fn func(n, line int64, raw []byte) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	count := &lineCounter{r: bufio.NewReader(f)}
	if head, err := count.r.Peek(3); err == nil && bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, _ = count.r.Discard(3) // they are in the buffer
	}
	dec := json.NewDecoder(count)
	if err := checkJSONArray(dec, count); err != nil {
		return err
	}
	var raw json.RawMessage
	for i := int64(1); dec.More(); i++ {
		if err := dec.Decode(&raw); err != nil {
			// Its offset is where the object before ended.
			off := dec.InputOffset()
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				off = max(off, syntax.Offset)
			}
			return &jsonFault{count.lineAt(off), err}
		}
		if !fn(i, count.lineAt(dec.InputOffset()-int64(len(raw))), raw) {
			return nil
		}
	}
	return nil
}

// checkJSONArray takes the bracket of an array, if there is one.
func checkJSONArray(dec *json.Decoder, c *lineCounter) error {
	for {
		b, err := c.r.Peek(1)
		if err != nil {
			return err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n':
			if _, err := c.ReadByteCounted(); err != nil {
				return err
			}
			continue
		case '[':
			_, err := dec.Token()
			return err
		}
		return nil
	}
}

// lineCounter remembers where lines start in what was read from it.
type lineCounter struct {
	r       *bufio.Reader
	skipped int64 // lines before the decoder's offset 0
	off     int64
	ends    []int64 // offsets of line ends not yet passed
	passed  int64   // line ends before ends
}

// ReadByteCounted takes a byte before the decoder starts.
func (c *lineCounter) ReadByteCounted() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil && b == '\n' {
		c.skipped++
	}
	return b, err
}

func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.ends = append(c.ends, c.off+int64(i))
		}
	}
	c.off += int64(n)
	// Offsets far behind are never asked for: values come in order.
	if len(c.ends) > 1<<20 {
		drop := len(c.ends) - 1<<19
		c.passed += int64(drop)
		c.ends = append(c.ends[:0], c.ends[drop:]...)
	}
	return n, err
}

// lineAt is the line, from 1, of an offset of the decoder.
func (c *lineCounter) lineAt(off int64) int64 {
	n := c.passed
	for _, e := range c.ends {
		if e >= off {
			break
		}
		n++
	}
	return c.skipped + n + 1
}

// aboutContent says whether an error is about what a file holds.
func (e *queryError) aboutContent() bool {
	switch e.kind {
	case duckdb.ErrorTypeInvalidInput, duckdb.ErrorTypeConversion, duckdb.ErrorTypeInvalid,
		duckdb.ErrorTypeSerialization, duckdb.ErrorTypeOutOfRange, duckdb.ErrorTypeMismatchType,
		duckdb.ErrorTypeNotImplemented:
		return true
	case duckdb.ErrorTypeIO: // how the Parquet reader speaks of bytes that are no thrift
		return strings.Contains(e.msg, "TProtocol")
	}
	return false
}

var (
	// DuckDB's own "LINE 1:" points into our SQL.
	lineInError = regexp.MustCompile(`\b(?:in line|on Line:) (\d+)`)
	fileInError = regexp.MustCompile(` ?(?:at end |of |in |for )*file ["'][^"']*["'],?`)
	kindInError = regexp.MustCompile(`^[A-Z][A-Za-z ]* Error: `)
)

// place takes the line and the words of an error about the file at path.
func (e *queryError) place(path string) (int64, string) {
	var line int64
	if m := lineInError.FindStringSubmatch(e.full); m != nil {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			line = n
		}
	}
	reason := kindInError.ReplaceAllString(e.msg, "")
	reason = strings.ReplaceAll(reason, path, "")
	reason = fileInError.ReplaceAllString(reason, "")
	reason = lineInError.ReplaceAllString(reason, "")
	return line, strings.TrimRight(strings.Join(strings.Fields(reason), " "), ".,:")
}
