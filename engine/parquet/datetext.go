package parquet

import (
	"fmt"
	"math"
	"strings"
)

// dateText writes days since 1970-01-01 as DuckDB prints a DATE.
func dateText(days int64) (string, bool) {
	switch days {
	case math.MaxInt32:
		return "infinity", true
	case -math.MaxInt32:
		return "-infinity", true
	}
	y, m, d := civil(days)
	return ymdText(y, m, d), true
}

// ymdText: year 0 of the proleptic calendar is 1 BC.
func ymdText(y, m, d int64) string {
	if y <= 0 {
		return fmt.Sprintf("%04d-%02d-%02d (BC)", 1-y, m, d)
	}
	return fmt.Sprintf("%04d-%02d-%02d", y, m, d)
}

// civil turns days since 1970-01-01 into a proleptic Gregorian date. Package
// time is not used: its range ends before DuckDB's does.
func civil(days int64) (y, m, d int64) {
	z := days + 719468 // days since 0000-03-01
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// timeText writes a time of day given in units of 1/perSec seconds. DuckDB
// reads TIME in microseconds; nanoseconds that would be lost make no bound.
func timeText(t, perSec int64) (string, bool) {
	if t < 0 || t > 24*3600*perSec {
		return "", false
	}
	if perSec == 1e9 && t%1000 != 0 {
		return "", false
	}
	return clockText(t/perSec, t%perSec, perSec), true
}

// clockText writes seconds of a day with a fraction, without trailing zeros.
func clockText(sec, frac, perSec int64) string {
	s := fmt.Sprintf("%02d:%02d:%02d", sec/3600, sec/60%60, sec%60)
	if frac == 0 {
		return s
	}
	digits := len(fmt.Sprint(perSec)) - 1
	return s + "." + strings.TrimRight(fmt.Sprintf("%0*d", digits, frac), "0")
}

// timestampText writes a point in time given in units of 1/perSec seconds.
func timestampText(t int64, enc valueEncoding) (string, bool) {
	if enc.perSec == 1e6 || enc.kind == kindTimestampNano {
		// DuckDB's own infinities; in other units they are no such thing
		switch t {
		case math.MaxInt64:
			return "infinity", true
		case -math.MaxInt64:
			return "-infinity", true
		}
	}
	switch {
	case t == math.MinInt64 || t == math.MaxInt64 || t == -math.MaxInt64:
		return "", false
	case enc.perSec == 1e3 && (t > math.MaxInt64/1000 || t < math.MinInt64/1000):
		return "", false // out of a TIMESTAMP's range: the reader fails on it
	case enc.perSec == 1e9 && enc.kind != kindTimestampNano && t%1000 != 0:
		return "", false // read in microseconds: rounding depends on the reader
	}
	sec := floorDiv(t, enc.perSec)
	day := floorDiv(sec, 86400)
	y, m, d := civil(day)
	s := ymdText(y, m, d) + " " + clockText(sec-day*86400, t-sec*enc.perSec, enc.perSec)
	if enc.kind == kindTimestampTZ {
		s += "+00"
	}
	return s, true
}
