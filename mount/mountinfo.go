package mount

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FSType is what /proc/self/mountinfo calls our mounts.
const FSType = "fuse." + subtype

// Entry is one line of /proc/self/mountinfo.
type Entry struct {
	ID, Parent int
	Dev        string // major:minor: the same for a mount and its bind mounts
	Root       string // which folder of the file system is mounted: "/", or another for a bind mount
	Point      string // where, unescaped
	Options    string // of this mount
	Type       string
	Source     string // ours: the repository's URL
	Super      string // options of the superblock
}

// Ours says that the mount was made by Tarn.
func (e Entry) Ours() bool { return e.Type == FSType }

// UID is who made a FUSE mount; 0 where the kernel does not say.
func (e Entry) UID() uint32 {
	for _, o := range strings.Split(e.Super, ",") {
		if v, ok := strings.CutPrefix(o, "user_id="); ok {
			if n, err := strconv.ParseUint(v, 10, 32); err == nil {
				return uint32(n)
			}
		}
	}
	return 0
}

// Table reads the mounts of this process's namespace, oldest first: a later
// one on the same point hides an earlier one. It asks no mounted file system
// anything, so it works beside dead ones.
func Table() ([]Entry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	defer f.Close()
	return ParseTable(f)
}

// ParseTable reads the format of proc(5):
//
//	36 35 98:0 /root /point rw,noatime master:1 - type source rw,user_id=0,...
func ParseTable(r io.Reader) ([]Entry, error) {
	var table []Entry
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // overlay mounts list all their layers
	for lines.Scan() {
		left, right, ok := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		e := Entry{Dev: l[2], Root: unescape(l[3]), Point: unescape(l[4]), Options: l[5], Type: r[0], Source: unescape(r[1])}
		e.ID, _ = strconv.Atoi(l[0])
		e.Parent, _ = strconv.Atoi(l[1])
		if len(r) > 2 {
			e.Super = r[2]
		}
		table = append(table, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return table, nil
}

// unescape undoes the kernel's octal escapes (\040 is a space).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// topAt is the last mount made at exactly dir, the one that is seen there.
func topAt(table []Entry, dir string) (Entry, bool) {
	for i := len(table) - 1; i >= 0; i-- {
		if table[i].Point == dir {
			return table[i], true
		}
	}
	return Entry{}, false
}

// Holding is the mount that dir lies in: the longest mount point that is dir
// or above it.
func Holding(table []Entry, dir string) (Entry, bool) {
	var best Entry
	found := false
	for _, e := range table {
		if Within(dir, e.Point) && (!found || len(e.Point) >= len(best.Point)) {
			best, found = e, true
		}
	}
	return best, found
}

// Within says that path is dir or below it. Both are absolute and clean.
func Within(path, dir string) bool {
	if path == dir {
		return true
	}
	if !strings.HasSuffix(dir, string(filepath.Separator)) {
		dir += string(filepath.Separator)
	}
	return strings.HasPrefix(path, dir)
}
