package parquet

import (
	"strings"

	"github.com/parquet-go/parquet-go/format"
)

// leaf folds the column chunks of one leaf column.
type leaf struct {
	el     *element
	path   string
	column *Column
	enc    valueEncoding
	hidden bool // below a variant

	size, values, nulls int64
	nullsUnknown        bool
	noBounds            bool // some chunk's bounds are missing or cannot be trusted
	bounded             bool
	lo, hi              value
}

func (l *leaf) name() string { return l.path }

func (l *leaf) add(c *chunk) {
	l.size += c.compressed
	l.values += c.numValues
	known := c.stats != nil && c.stats.nullCount != nil
	if known {
		l.nulls += *c.stats.nullCount
	} else {
		l.nullsUnknown = true
	}
	if l.noBounds || c.numValues == 0 || known && *c.stats.nullCount == c.numValues {
		return // a chunk without values bounds nothing
	}
	lo, hi, ok := l.bounds(c.stats)
	if !ok {
		l.noBounds = true
		return
	}
	if !l.bounded {
		l.bounded, l.lo, l.hi = true, lo, hi
		return
	}
	if lo.less(l.lo) {
		l.lo = lo
	}
	if l.hi.less(hi) {
		l.hi = hi
	}
}

// bounds reads the bounds of one chunk; ok only when both are there and exact.
func (l *leaf) bounds(s *chunkStats) (lo, hi value, ok bool) {
	if l.enc.kind == kindNone || s == nil {
		return lo, hi, false
	}
	if s.maxExact != nil && !*s.maxExact || s.minExact != nil && !*s.minExact {
		return lo, hi, false
	}
	low, high := s.min, s.max
	if low == nil && high == nil && l.signedOrder() {
		low, high = s.oldMin, s.oldMax
	}
	if low == nil || high == nil {
		return lo, hi, false
	}
	lo, okLo := l.decode(low)
	hi, okHi := l.decode(high)
	return lo, hi, okLo && okHi && !hi.less(lo)
}

// signedOrder says whether the deprecated min and max can be trusted: they
// were compared as signed numbers, whatever the column meant.
func (l *leaf) signedOrder() bool {
	switch l.enc.kind {
	case kindUint, kindText, kindBlob, kindUUID:
		return false
	}
	return l.el.typ != format.ByteArray && l.el.typ != format.FixedLenByteArray
}

func (l *leaf) result(createdBy string) LeafStats {
	s := LeafStats{Column: l.column, SizeBytes: l.size}
	if !l.nullsUnknown {
		nulls, values := l.nulls, l.values-l.nulls
		s.NullCount, s.ValueCount = &nulls, &values
	}
	// DuckDB once wrote the bounds of ENUM columns by code, not by text
	// (duckdb/duckdb#22548); the footer does not say which version fixed it.
	if l.enc.enum && strings.Contains(createdBy, "DuckDB") {
		return s
	}
	if l.noBounds || !l.bounded {
		return s
	}
	lo, okLo := l.text(l.lo)
	hi, okHi := l.text(l.hi)
	if okLo && okHi {
		s.Min, s.Max = &lo, &hi
	}
	return s
}
