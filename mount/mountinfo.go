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

// fsType is what /proc/self/mountinfo calls our mounts.
const fsType = "fuse." + subtype

// entry is one line of /proc/self/mountinfo.
type entry struct {
	ID, Parent int
	Dev        string // major:minor
	Point      string // where, unescaped
	Options    string // of this mount
	Type       string
	Source     string
	Super      string // options of the superblock
}

// ours says that the mount was made by Tarn.
func (e entry) ours() bool { return e.Type == fsType }

// mountTable reads the mounts of this process's namespace, oldest first. It
// asks no mounted file system anything, so it works beside dead ones.
func mountTable() ([]entry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	defer f.Close()
	return parseMountTable(f)
}

func parseMountTable(r io.Reader) ([]entry, error) {
	var table []entry
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// id parent dev root point options [optional...] - type source super
		left, right, ok := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		e := entry{Dev: l[2], Point: unescape(l[4]), Options: l[5], Type: r[0], Source: unescape(r[1])}
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
func topAt(table []entry, dir string) (entry, bool) {
	for i := len(table) - 1; i >= 0; i-- {
		if table[i].Point == dir {
			return table[i], true
		}
	}
	return entry{}, false
}

// holding is the mount that dir lies in: the longest mount point that is dir
// or above it.
func holding(table []entry, dir string) (entry, bool) {
	var best entry
	found := false
	for _, e := range table {
		if within(dir, e.Point) && (!found || len(e.Point) >= len(best.Point)) {
			best, found = e, true
		}
	}
	return best, found
}

// within says that path is dir or below it. Both are absolute and clean.
func within(path, dir string) bool {
	if path == dir {
		return true
	}
	if !strings.HasSuffix(dir, string(filepath.Separator)) {
		dir += string(filepath.Separator)
	}
	return strings.HasPrefix(path, dir)
}
