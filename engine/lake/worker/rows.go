package worker

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// rowSender streams rows to the daemon in batches.
type rowSender struct {
	out *lake.Pipe
	buf []byte
}

func (s *rowSender) send(t *catalog.Table, row catalog.Row) error {
	var err error
	if s.buf, err = lake.AppendRow(s.buf, t, row); err != nil {
		return err
	}
	if len(s.buf) >= lake.BatchSize {
		return s.flush()
	}
	return nil
}

func (s *rowSender) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	err := s.out.Send(lake.FrameRows, s.buf)
	s.buf = s.buf[:0]
	return err
}

// valueFault is a value that the column cannot hold in any DuckLake catalog.
func valueFault(t *catalog.Table, c catalog.Column, what string) error {
	return fmt.Errorf("%w: %s.%s holds %s", lake.ErrDamaged, t.SQLName(), c.Name, what)
}

// fromSQLite makes the Row value of what a SQLite column holds. SQLite stores
// any type anywhere, and DuckDB's scanner refuses what does not fit; so do we.
func fromSQLite(t *catalog.Table, i int, v any) (any, error) {
	c := t.Columns[i]
	switch v := v.(type) {
	case nil:
		return nil, nil
	case float64:
		return nil, valueFault(t, c, "a REAL")
	case []byte:
		return nil, valueFault(t, c, "a BLOB")
	case int64:
		switch c.Type {
		case catalog.BigInt:
			return v, nil
		case catalog.Boolean:
			if v != 0 && v != 1 {
				return nil, valueFault(t, c, fmt.Sprintf("%d, wanted 0 or 1", v))
			}
			return v == 1, nil
		}
		return nil, valueFault(t, c, "a number, wanted text")
	case string:
		if !utf8.ValidString(v) {
			return nil, valueFault(t, c, "text that is not UTF-8")
		}
		switch c.Type {
		case catalog.Varchar:
			return v, nil
		case catalog.UUID:
			id, err := uuid.Parse(v)
			if err != nil || len(v) != 36 {
				return nil, valueFault(t, c, fmt.Sprintf("%q, wanted a UUID", v))
			}
			return id.String(), nil
		case catalog.TimestampTZ:
			at, ok := parseTime(v)
			if !ok {
				return nil, valueFault(t, c, fmt.Sprintf("%q, wanted a time", v))
			}
			return at.Format(catalog.TimeLayout), nil
		}
		return nil, valueFault(t, c, "text, wanted a number")
	}
	return nil, valueFault(t, c, fmt.Sprintf("a %T", v))
}

// toSQLite is what a Row value is stored as.
func toSQLite(v any) any {
	if b, ok := v.(bool); ok {
		if b {
			return int64(1)
		}
		return int64(0)
	}
	return v
}

// timeLayouts are the forms DuckDB accepts in snapshot_time. A fraction may
// follow the seconds in all of them: time.Parse takes it by itself.
var timeLayouts = []string{
	"2006-01-02 15:04:05Z07",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05Z0700",
	"2006-01-02 15:04:05",
	"2006-01-02 15:04Z07:00",
	"2006-01-02 15:04",
	"2006-01-02",
}

// parseTime reads a stored time, in UTC and microseconds. Text without an
// offset is UTC, as in a session whose zone is UTC.
func parseTime(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 10 && (s[10] == 'T' || s[10] == 't') {
		s = s[:10] + " " + s[11:]
	}
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, s); err == nil {
			at = at.UTC().Truncate(time.Microsecond)
			if y := at.Year(); y < 0 || y > 9999 {
				return time.Time{}, false
			}
			return at, true
		}
	}
	return time.Time{}, false
}
