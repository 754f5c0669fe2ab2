package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mountType is how the kernel lists our mounts.
const mountType = "fuse.tarn"

// mountEntry is one line of /proc/self/mountinfo.
type mountEntry struct {
	Device string // major:minor: the same for a mount and its bind mounts
	Root   string // which folder of the file system is mounted: "/", or another for a bind mount
	Point  string
	Type   string
	Source string // ours: the repository's URL
	UID    uint32 // FUSE: who mounted it
}

// readMounts lists the mounts of this process, in the kernel's order: a later
// one on the same point hides an earlier one.
func readMounts() ([]mountEntry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	return parseMounts(f)
}

// parseMounts reads the format of proc(5):
//
//	36 35 98:0 /root /point rw,noatime master:1 - type source user_id=0,...
func parseMounts(r io.Reader) ([]mountEntry, error) {
	var entries []mountEntry
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20) // overlay mounts list all their layers
	for s.Scan() {
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		e := mountEntry{Device: left[2], Root: unescapeMount(left[3]), Point: unescapeMount(left[4]), Type: right[0], Source: unescapeMount(right[1])}
		if len(right) > 2 {
			e.UID = userID(right[2])
		}
		entries = append(entries, e)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return entries, nil
}

func userID(options string) uint32 {
	for _, o := range strings.Split(options, ",") {
		if v, ok := strings.CutPrefix(o, "user_id="); ok {
			n, err := strconv.ParseUint(v, 10, 32)
			if err == nil {
				return uint32(n)
			}
		}
	}
	return 0
}

// unescapeMount undoes the kernel's \040 for space, tab, line feed and backslash.
func unescapeMount(s string) string {
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

// mountOf finds the mount that path (absolute, cleaned) lies in.
func mountOf(entries []mountEntry, path string) (mountEntry, bool) {
	best, found := mountEntry{}, false
	for _, e := range entries {
		if below(path, e.Point) && (!found || len(e.Point) >= len(best.Point)) {
			best, found = e, true
		}
	}
	return best, found
}

// originOf is the entry at which the file system of e was mounted first:
// e itself, unless e is a bind mount. The daemon is known by its mount point.
func originOf(entries []mountEntry, e mountEntry) mountEntry {
	if e.Root == "/" {
		return e
	}
	for _, o := range entries {
		if o.Device == e.Device && o.Root == "/" {
			return o
		}
	}
	return e
}

// below says whether path is dir or lies in it; both absolute and cleaned.
func below(path, dir string) bool {
	if dir == "/" {
		return true
	}
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// relative is path below dir, "" for dir itself.
func relative(path, dir string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == "." {
		return ""
	}
	return rel
}
