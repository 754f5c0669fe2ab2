package parquet

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"
)

// maxTextBound is the longest text or blob kept as a bound; a longer one costs
// more in every catalog than it saves.
const maxTextBound = 64 << 10

// value is one decoded bound. Exactly one of its forms is used, by kind.
type value struct {
	num *big.Int
	f   float64
	raw []byte
}

// less compares by logical value: never by text, never by stored bytes.
func (v value) less(w value) bool {
	switch {
	case v.num != nil:
		return v.num.Cmp(w.num) < 0
	case v.raw != nil:
		return bytes.Compare(v.raw, w.raw) < 0
	case v.f == w.f: // -0.0 lies below +0.0 here, so that bounds widen over both
		return math.Signbit(v.f) && !math.Signbit(w.f)
	}
	return v.f < w.f
}

// decode reads the stored bytes of a bound; false when they do not make one.
func (l *leaf) decode(b []byte) (value, bool) {
	switch l.enc.kind {
	case kindBool:
		if len(b) != 1 || b[0] > 1 {
			return value{}, false
		}
		return value{num: big.NewInt(int64(b[0]))}, true
	case kindFloat:
		f, ok := 0.0, false
		switch {
		case l.el.typ == format.Float && len(b) == 4:
			f, ok = float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
		case l.el.typ == format.Double && len(b) == 8:
			f, ok = math.Float64frombits(binary.LittleEndian.Uint64(b)), true
		}
		return value{f: f}, ok && !math.IsNaN(f)
	case kindText:
		return value{raw: b}, len(b) <= maxTextBound && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
	case kindBlob:
		return value{raw: b}, len(b) <= maxTextBound
	case kindUUID:
		return value{raw: b}, len(b) == 16
	}
	n, ok := l.integer(b)
	return value{num: n}, ok
}

// integer reads a whole number as the physical type stores it.
func (l *leaf) integer(b []byte) (*big.Int, bool) {
	switch l.el.typ {
	case format.Int32:
		if len(b) != 4 {
			return nil, false
		}
		u := binary.LittleEndian.Uint32(b)
		if l.enc.kind == kindUint {
			return new(big.Int).SetUint64(uint64(u)), true
		}
		return big.NewInt(int64(int32(u))), true
	case format.Int64:
		if len(b) != 8 {
			return nil, false
		}
		u := binary.LittleEndian.Uint64(b)
		if l.enc.kind == kindUint {
			return new(big.Int).SetUint64(u), true
		}
		return big.NewInt(int64(u)), true
	}
	// decimals: big-endian two's complement
	if len(b) == 0 || len(b) > 32 {
		return nil, false
	}
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n, true
}

// text writes a bound as DuckLake has it; false when that would not be exact.
func (l *leaf) text(v value) (string, bool) {
	switch l.enc.kind {
	case kindBool:
		return strconv.FormatBool(v.num.Sign() != 0), true
	case kindInt, kindUint:
		return v.num.String(), true
	case kindFloat:
		return floatText(v.f, l.el.typ == format.Float), true
	case kindDecimal:
		return decimalText(v.num, int(l.enc.scale)), true
	case kindText:
		return string(v.raw), true
	case kindBlob:
		return blobText(v.raw), true
	case kindUUID:
		h := hex.EncodeToString(v.raw)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:], true
	case kindDate:
		return dateText(v.num.Int64())
	case kindTime:
		return timeText(v.num.Int64(), l.enc.perSec)
	case kindTimestamp, kindTimestampTZ, kindTimestampNano:
		return timestampText(v.num.Int64(), l.enc)
	}
	return "", false
}

// floatText is the shortest text that reads back as f, the way DuckDB prints
// it: plain from 1e-4 up to 1e16, always with a point or an exponent.
func floatText(f float64, single bool) string {
	size := 64
	if single {
		size = 32
	}
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f == 0: // DuckDB's order has one zero
		return "0.0"
	}
	if a := math.Abs(f); a < 1e-4 || a >= 1e16 {
		return strconv.FormatFloat(f, 'e', -1, size)
	}
	s := strconv.FormatFloat(f, 'f', -1, size)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// decimalText writes the unscaled n with all digits of its scale.
func decimalText(n *big.Int, scale int) string {
	s := new(big.Int).Abs(n).String()
	if scale > 0 {
		if len(s) <= scale {
			s = strings.Repeat("0", scale-len(s)+1) + s
		}
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if n.Sign() < 0 {
		s = "-" + s
	}
	return s
}

// blobText is DuckDB's text form of a blob: printable ASCII as it is, the rest as \xAA.
func blobText(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' || c == '\'' || c == '"' {
			fmt.Fprintf(&s, `\x%02X`, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String()
}
