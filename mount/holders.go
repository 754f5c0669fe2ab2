package mount

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Holder is a process that uses something in a mount.
type Holder struct {
	PID  int
	Name string
	How  string // what it holds: cwd, root, exe, fd 5, map
}

func (h Holder) String() string { return fmt.Sprintf("%s (pid %d, %s)", h.Name, h.PID, h.How) }

// maxHolders bounds the list: a user needs a few names, not all.
const maxHolders = 20

// holders lists processes that have something below one of dirs. It reads
// links of /proc only, which asks the mount nothing, so it works on a dead
// one; of other users' processes it sees only what /proc shows.
func holders(dirs ...string) []Holder {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	var found []Holder
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == self {
			continue
		}
		if how := holds(pid, dirs); how != "" {
			found = append(found, Holder{PID: pid, Name: processName(pid), How: how})
			if len(found) == maxHolders {
				break
			}
		}
	}
	return found
}

// holds says what of process pid lies in dirs, or "".
func holds(pid int, dirs []string) string {
	base := filepath.Join("/proc", strconv.Itoa(pid))
	in := func(target string) bool {
		target = strings.TrimSuffix(target, " (deleted)")
		for _, d := range dirs {
			if Within(target, d) {
				return true
			}
		}
		return false
	}
	for _, link := range []string{"cwd", "root", "exe"} {
		if target, err := os.Readlink(filepath.Join(base, link)); err == nil && in(target) {
			return link
		}
	}
	if fds, err := os.ReadDir(filepath.Join(base, "fd")); err == nil {
		for _, fd := range fds {
			if target, err := os.Readlink(filepath.Join(base, "fd", fd.Name())); err == nil && in(target) {
				return "fd " + fd.Name()
			}
		}
	}
	f, err := os.Open(filepath.Join(base, "maps"))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if i := strings.IndexByte(lines.Text(), '/'); i >= 0 && in(lines.Text()[i:]) {
			return "map"
		}
	}
	return ""
}

func processName(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return "a process"
	}
	return strings.TrimSpace(string(b))
}
