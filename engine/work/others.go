package work

import (
	"bufio"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// Home is a user's home folder.
type Home struct{ User, Dir string }

// Homes reads the format of passwd(5). Homes that several users share, such as
// those of daemons, count once.
func Homes(passwd io.Reader) []Home {
	var out []Home
	lines := bufio.NewScanner(passwd)
	for lines.Scan() {
		f := strings.Split(lines.Text(), ":")
		if len(f) < 7 || !filepath.IsAbs(f[5]) || filepath.Clean(f[5]) == "/" {
			continue
		}
		if !slices.ContainsFunc(out, func(h Home) bool { return h.Dir == f[5] }) {
			out = append(out, Home{f[0], f[5]})
		}
	}
	return out
}

// Left is what a user's working folder holds that is not published.
type Left struct {
	User     string
	Branch   string
	Dir      string // the working folder
	Versions int    // committed and not pushed
}

// LeftByOthers looks in the state folders below homes, but not in own, for
// unpushed versions of the repository whose state has this name (RepoName). A
// folder that may not be read, or is none of this format, is passed over:
// nothing can be said of it. Nothing is locked or written.
func LeftByOthers(homes []Home, name, own string) []Left {
	var out []Left
	for _, h := range homes {
		root := filepath.Join(h.Dir, ".local", "state", "tarn")
		if root == own {
			continue
		}
		repo := filepath.Join(root, name)
		branches, err := Branches(repo)
		if err != nil {
			continue
		}
		for _, b := range branches {
			dir := WorkDir(repo, b)
			gen, err := CurrentDir(dir)
			if err != nil {
				continue
			}
			box := &Outbox{dir: Layout{gen}.OutboxDir()}
			if ids, err := box.Versions(); err == nil && len(ids) > 0 {
				out = append(out, Left{User: h.User, Branch: b, Dir: dir, Versions: len(ids)})
			}
		}
	}
	return out
}
