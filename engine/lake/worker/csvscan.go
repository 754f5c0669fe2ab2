package worker

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/tarnfs/tarn/engine/lake"
)

// csvShape is what a scan of a whole CSV file finds out. The scan is ours and
// not DuckDB's sniffer, because it must give the line of what is wrong, and
// because the sniffer may skip lines, or take # for a comment, to make a file fit.
//
// The dialect: UTF-8, one header line, fields in "..." when they hold the
// delimiter, a quote (doubled) or a line break, LF or CRLF. A quote inside a
// bare field is a character like any other. DuckDB reads the same, and the
// number of rows of both is compared.
type csvShape struct {
	delim  byte
	header []string
	rows   int64
	widest int // bytes of the longest record
}

// csvDelimiters are tried in this order: the first that gives most columns
// in the header, outside quotes, wins.
var csvDelimiters = []byte{',', ';', '\t', '|'}

// maxCSVLine bounds a record: DuckDB must hold several.
const maxCSVLine = 32 << 20

// scanCSV reads the file to its end. What is wrong with it is a *lake.ValueError.
func scanCSV(path string) (*csvShape, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := newCSVScanner(f)
	shape := new(csvShape)
	first, err := s.peekHeader()
	if err != nil {
		return nil, err
	}
	shape.delim = pickDelimiter(first)
	s.delim = shape.delim
	fields, err := s.record()
	if err != nil {
		return nil, err
	}
	if shape.header, err = headerNames(fields); err != nil {
		return nil, err
	}
	s.wanted = len(shape.header)
	s.keep = false
	for {
		_, err := s.record()
		if err == io.EOF {
			return shape, nil
		}
		if err != nil {
			return nil, err
		}
		shape.rows++
		shape.widest = max(shape.widest, s.size)
	}
}

// csvRecord gives the line on which row number n (from 1, without the header)
// starts, and its fields.
func csvRecord(path string, delim byte, columns int, n int64) (line int64, fields []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	s := newCSVScanner(f)
	if _, err := s.peekHeader(); err != nil {
		return 0, nil, err
	}
	s.delim, s.wanted = delim, columns
	for i := int64(0); i <= n; i++ { // the header is record 0
		s.keep = i == n
		if fields, err = s.record(); err != nil {
			return 0, nil, err
		}
	}
	return s.start, fields, nil
}

// headerNames checks the names of the columns.
func headerNames(fields []string) ([]string, error) {
	names := make([]string, len(fields))
	seen := map[string]bool{}
	for i, f := range fields {
		name := strings.TrimSpace(f)
		if name == "" {
			return nil, &lake.ValueError{Line: 1, Reason: fmt.Sprintf("line 1: column %d has no name; a header line is expected", i+1)}
		}
		if low := strings.ToLower(name); seen[low] {
			return nil, &lake.ValueError{Line: 1, Reason: fmt.Sprintf("line 1: two columns are called %q", name)}
		} else {
			seen[low] = true
		}
		names[i] = name
	}
	return names, nil
}

// pickDelimiter counts outside quotes.
func pickDelimiter(line []byte) byte {
	best, most := csvDelimiters[0], 0
	for _, d := range csvDelimiters {
		n, quoted := 0, false
		for _, b := range line {
			switch {
			case b == '"':
				quoted = !quoted
			case b == d && !quoted:
				n++
			}
		}
		if n > most {
			best, most = d, n
		}
	}
	return best
}

// csvScanner is a state machine over the bytes of a file.
type csvScanner struct {
	r      *bufio.Reader
	delim  byte
	wanted int  // fields of each record; 0 while reading the header
	keep   bool // return the fields
	line   int64
	start  int64 // line on which the last record started
	crlf   *bool // how lines end, once known

	field  []byte
	fields []string
	n      int // fields of this record
	size   int // bytes of this record
}

func newCSVScanner(r io.Reader) *csvScanner {
	return &csvScanner{r: bufio.NewReaderSize(r, 1<<20), line: 1, keep: true}
}

// peekHeader skips a byte order mark and returns the first line without
// taking it.
func (s *csvScanner) peekHeader() ([]byte, error) {
	head, err := s.r.Peek(3)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		if _, err := s.r.Discard(3); err != nil {
			return nil, err
		}
	}
	line, err := s.r.Peek(s.r.Size())
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(line) == 0 {
		return nil, &lake.ValueError{Reason: "the file is empty"}
	}
	if bytes.HasPrefix(line, []byte("\xff\xfe")) || bytes.HasPrefix(line, []byte("\xfe\xff")) {
		return nil, &lake.ValueError{Line: 1, Reason: "line 1: the file is UTF-16, wanted UTF-8"}
	}
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	return line, nil
}

func (s *csvScanner) fault(line int64, format string, args ...any) error {
	return &lake.ValueError{Line: line, Reason: fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)}
}

// record reads one record, io.EOF after the last. Blank lines between records
// of several columns are not records; of one column they are a NULL.
func (s *csvScanner) record() ([]string, error) {
	for {
		s.start = s.line
		s.fields, s.n, s.size, s.field = s.fields[:0], 0, 0, s.field[:0]
		more, blank, err := s.read()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, io.EOF
		}
		if blank {
			if s.wanted == 0 {
				return nil, s.fault(s.start, "blank, but a header line is expected")
			}
			if s.wanted > 1 {
				continue
			}
		}
		if s.wanted > 0 && s.n != s.wanted {
			return nil, s.fault(s.start, "%d fields, wanted %d", s.n, s.wanted)
		}
		return s.fields, nil
	}
}

// read takes the bytes of one record and its line end. more is false at the
// end of the file.
func (s *csvScanner) read() (more, blank bool, err error) {
	const (
		atStart = iota // of a field
		bare
		quoted
		afterQuote
	)
	state, any, cr := atStart, false, false
	for {
		b, err := s.r.ReadByte()
		if err == io.EOF {
			switch {
			case state == quoted:
				return false, false, s.fault(s.start, "a quote is opened and never closed")
			case !any:
				return false, false, nil
			}
			return true, false, s.endField()
		}
		if err != nil {
			return false, false, err
		}
		if s.size++; s.size > maxCSVLine {
			return false, false, s.fault(s.start, "longer than %d MiB", maxCSVLine>>20)
		}
		if b == 0 {
			return false, false, s.fault(s.line, "a NUL byte: this is not text")
		}
		if state == quoted {
			if b == '"' {
				state = afterQuote
				continue
			}
			if b == '\n' {
				s.line++
			}
			s.field = append(s.field, b)
			continue
		}
		switch b {
		case '"':
			switch state {
			case atStart:
				state, any = quoted, true
			case afterQuote: // doubled
				s.field = append(s.field, '"')
				state = quoted
			default:
				s.field = append(s.field, '"')
			}
		case s.delim:
			any = true
			if err := s.endField(); err != nil {
				return false, false, err
			}
			state = atStart
		case '\r':
			next, err := s.r.Peek(1)
			if err != nil && err != io.EOF {
				return false, false, err
			}
			if len(next) == 0 || next[0] != '\n' {
				return false, false, s.fault(s.line, "a carriage return without a line feed; lines must end in LF or CRLF")
			}
			cr = true
		case '\n':
			line := s.line
			s.line++
			if err := s.lineEnd(line, cr); err != nil {
				return false, false, err
			}
			return true, !any, s.endFieldAt(line)
		default:
			if state == afterQuote {
				return false, false, s.fault(s.line, "%q follows a closing quote", string(rune(b)))
			}
			state, any = bare, true
			s.field = append(s.field, b)
		}
	}
}

// lineEnd refuses a file with both kinds of line end, which DuckDB cannot read.
func (s *csvScanner) lineEnd(line int64, crlf bool) error {
	if s.crlf == nil {
		s.crlf = &crlf
	}
	if *s.crlf == crlf {
		return nil
	}
	if crlf {
		return s.fault(line, "ends in CRLF, where the lines before end in LF")
	}
	return s.fault(line, "ends in LF, where the lines before end in CRLF")
}

func (s *csvScanner) endField() error { return s.endFieldAt(s.line) }

// endFieldAt finishes a field that ends on line.
func (s *csvScanner) endFieldAt(line int64) error {
	s.n++
	if !utf8.Valid(s.field) {
		return s.fault(line, "field %d is not UTF-8", s.n)
	}
	if s.keep {
		s.fields = append(s.fields, string(s.field))
	}
	s.field = s.field[:0]
	return nil
}
