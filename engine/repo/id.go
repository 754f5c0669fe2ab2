package repo

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// ID names a version: a UUID in canonical lower-case form; new ones are
// UUIDv7. The zero ID ("") means no version.
type ID string

const (
	idLen    = 36 // 8-4-4-4-12 hex digits
	shortLen = 13 // 48 bits: one millisecond of a UUIDv7
	// MinPrefix is the shortest prefix of an ID that arguments may use.
	MinPrefix = 8
)

// ParseID reads any UUID in its form with hyphens, in either case, and returns
// it in canonical lower case. Anything else is ErrBadID. It takes no white space.
func ParseID(s string) (ID, error) {
	if len(s) != idLen { // uuid.Parse also takes braces, URNs and bare digits
		return "", fmt.Errorf("%w: %q", ErrBadID, clip(s))
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%w: %q", ErrBadID, clip(s))
	}
	return ID(u.String()), nil
}

// NewID makes a UUIDv7. IDs made by one process grow, even when its clock is
// set back; of IDs made elsewhere the order says nothing: history is parents.
func NewID() ID { return ID(uuid.Must(uuid.NewV7()).String()) } // Must: crypto/rand does not fail

// Short is the first 13 characters, one millisecond: how an ID is shown.
func (id ID) Short() string {
	if len(id) < shortLen {
		return string(id)
	}
	return string(id[:shortLen])
}

// time is the millisecond that a UUIDv7 carries; the zero time for other IDs.
func (id ID) time() time.Time {
	u, err := uuid.Parse(string(id))
	if err != nil || u.Version() != 7 {
		return time.Time{}
	}
	var ms int64
	for _, b := range u[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
}

// ShortUnique says how to show each of ids so that no two look alike: the
// first 13 characters, more where needed. Equal IDs share one text.
func ShortUnique(ids []ID) map[ID]string {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	short := make(map[ID]string, len(sorted))
	for i, id := range sorted {
		n := shortLen
		if i > 0 {
			n = max(n, common(sorted[i-1], id)+1)
		}
		if i+1 < len(sorted) {
			n = max(n, common(id, sorted[i+1])+1)
		}
		short[id] = string(id[:min(n, len(id))])
	}
	return short
}

// common is the length of the common prefix of a and b.
func common(a, b ID) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// clip shortens a text from outside so that an error stays one line.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
