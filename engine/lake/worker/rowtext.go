package worker

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tarnfs/tarn/engine/lake"
)

// textSender streams text to the daemon in batches.
type textSender struct {
	out *lake.Pipe
	buf []byte
}

func (s *textSender) Write(b []byte) (int, error) {
	s.buf = append(s.buf, b...)
	if len(s.buf) >= lake.BatchSize {
		return len(b), s.flush()
	}
	return len(b), nil
}

func (s *textSender) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	err := s.out.Send(lake.FrameRows, s.buf)
	if err == nil {
		err = s.out.Flush()
	}
	s.buf = s.buf[:0]
	return err
}

// What a box keeps in memory to find how wide its columns are; wider values
// that come later stand out of it.
const (
	boxRows  = 1000
	boxBytes = 1 << 20
)

// boxWriter draws a table as DuckDB's own client does.
type boxWriter struct {
	out    *textSender
	cols   []described
	width  []int
	kept   [][]string
	bytes  int
	begun  bool
	number int64
}

func newBoxWriter(out *textSender, cols []described) *boxWriter {
	w := &boxWriter{out: out, cols: cols, width: make([]int, len(cols))}
	for i, c := range cols {
		w.width[i] = max(utf8.RuneCountInString(cell(c.name)), utf8.RuneCountInString(strings.ToLower(c.typ)))
	}
	return w
}

// take draws the rows of a CSV without a head.
func (w *boxWriter) take(r io.Reader) error {
	in := csv.NewReader(r)
	in.ReuseRecord, in.FieldsPerRecord = true, len(w.cols)
	for {
		values, err := in.Read()
		if err == io.EOF {
			return w.end()
		}
		if err == nil {
			err = w.row(values)
		}
		if err != nil {
			return err
		}
	}
}

func (w *boxWriter) row(values []string) error {
	w.number++
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = cell(v)
		if !w.begun {
			w.width[i] = max(w.width[i], utf8.RuneCountInString(cells[i]))
			w.bytes += len(cells[i])
		}
	}
	if w.begun {
		return w.line(cells)
	}
	w.kept = append(w.kept, cells)
	if len(w.kept) < boxRows && w.bytes < boxBytes {
		return nil
	}
	return w.begin()
}

// begin draws the head and what was kept.
func (w *boxWriter) begin() error {
	w.begun = true
	names, types := make([]string, len(w.cols)), make([]string, len(w.cols))
	for i, c := range w.cols {
		names[i], types[i] = centre(cell(c.name), w.width[i]), centre(strings.ToLower(c.typ), w.width[i])
	}
	err := w.rule("┌", "┬", "┐")
	for _, cells := range append([][]string{names, types, nil}, w.kept...) {
		switch {
		case err != nil:
			return err
		case cells == nil:
			err = w.rule("├", "┼", "┤")
		default:
			err = w.line(cells)
		}
	}
	w.kept = nil
	return err
}

func (w *boxWriter) end() error {
	if !w.begun {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if err := w.rule("└", "┴", "┘"); err != nil {
		return err
	}
	rows := "rows"
	if w.number == 1 {
		rows = "row"
	}
	_, err := fmt.Fprintf(w.out, "%d %s\n", w.number, rows)
	return err
}

func (w *boxWriter) rule(left, mid, right string) error {
	parts := make([]string, len(w.width))
	for i, n := range w.width {
		parts[i] = strings.Repeat("─", n+2)
	}
	_, err := fmt.Fprintf(w.out, "%s%s%s\n", left, strings.Join(parts, mid), right)
	return err
}

func (w *boxWriter) line(cells []string) error {
	var b strings.Builder
	for i, c := range cells {
		pad := strings.Repeat(" ", max(0, w.width[i]-utf8.RuneCountInString(c)))
		if numeric(w.cols[i].typ) {
			c = pad + c
		} else {
			c += pad
		}
		b.WriteString("│ " + c + " ")
	}
	b.WriteString("│\n")
	_, err := w.out.Write([]byte(b.String()))
	return err
}

func centre(s string, width int) string {
	left := (width - utf8.RuneCountInString(s)) / 2
	return strings.Repeat(" ", left) + s + strings.Repeat(" ", width-left-utf8.RuneCountInString(s))
}

func numeric(typ string) bool {
	switch typ {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE":
		return true
	}
	return strings.HasPrefix(typ, "DECIMAL")
}

// cell keeps a value on its line and away from the terminal's controls.
func cell(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s))
}
