package mount

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Place is a folder that a mount point may not be in, nor above.
type Place struct {
	What string // the repository, the state folder, the cache
	Dir  string
}

// Guard says what a mount point may not be. The zero value asks for an
// existing, empty folder that is not mounted.
type Guard struct {
	// Make makes a missing mount point, with mode 0555: what is written into
	// it while nothing is mounted would be lost from view.
	Make bool
	// AllowNonEmpty mounts over what is there.
	AllowNonEmpty bool
	// Avoid are the places whose files the daemon itself uses: a mount over
	// or inside one would make it wait for itself.
	Avoid []Place
	// inside allows a mount point that lies in a mount of ours: the working
	// folders in their repository.
	inside bool
}

// madeMode is the mode of a mount point that Tarn makes.
const madeMode = 0o555

// statLimit is how long a mount point may take to answer: one that belongs
// to a daemon that hangs never does.
var statLimit = 5 * time.Second

// dyingPause is how long a killed daemon may go on answering.
const dyingPause = 100 * time.Millisecond

// check returns the real path of the mount point, or why it cannot be one.
func (g Guard) check(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("mount point %s: %w", dir, err)
	}
	real, err := g.resolve(abs)
	if err != nil {
		return "", err
	}
	if err := g.checkTable(real); err != nil {
		return "", err
	}
	for _, p := range g.Avoid {
		if err := apart(real, p); err != nil {
			return "", err
		}
	}
	if !g.AllowNonEmpty {
		if err := empty(real); err != nil {
			return "", err
		}
	}
	return real, nil
}

// resolve finds the real path, making the folder when that is asked for.
func (g Guard) resolve(abs string) (string, error) {
	st, err := statLimited(abs)
	if errors.Is(err, iofs.ErrNotExist) {
		if !g.Make {
			return "", outcome.New(outcome.NotFound, "mount point "+abs+" does not exist", "make it with: mkdir -p "+abs)
		}
		// Overlap is checked before anything is made.
		if parent, err := filepath.EvalSymlinks(existing(abs)); err == nil {
			for _, p := range g.Avoid {
				if real := realOf(p.Dir); Within(parent, real) {
					return "", overlap(abs, p)
				}
			}
		}
		if err := makeDir(abs); err != nil {
			return "", err
		}
		st, err = statLimited(abs)
	}
	if err != nil {
		return "", outcome.Wrap(outcome.Of(err), "mount point "+abs, err, "check the path and its permissions")
	}
	if !st.IsDir() {
		return "", outcome.New(outcome.Usage, "mount point "+abs+" is not a folder", "name an empty folder")
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fmt.Errorf("mount point %s: %w", abs, err)
	}
	return real, nil
}

// existing is the nearest parent of path that exists.
func existing(path string) string {
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if _, err := os.Lstat(path); err == nil {
			break
		}
	}
	return path
}

// makeDir makes the mount point and what is missing above it.
func makeDir(abs string) error {
	if err := os.MkdirAll(filepath.Dir(abs), 0o755); err != nil {
		return outcome.Wrap(outcome.Of(err), "make mount point "+abs, err, "make it yourself, or name another")
	}
	if err := os.Mkdir(abs, madeMode); err != nil && !errors.Is(err, iofs.ErrExist) {
		return outcome.Wrap(outcome.Of(err), "make mount point "+abs, err, "make it yourself, or name another")
	}
	return nil
}

// checkTable refuses a folder that is already one of our mounts, or in one.
func (g Guard) checkTable(real string) error {
	table, err := Table()
	if err != nil {
		return err
	}
	in, ok := Holding(table, real)
	if !ok || !in.Ours() {
		return nil
	}
	if in.Point == real {
		time.Sleep(dyingPause) // its daemon may be one that was just killed
		if _, err := statLimited(real); gone(err) {
			return err
		}
		return outcome.New(outcome.Busy, fmt.Sprintf("%s is already mounted at %s", in.Source, real), "use it, or end it first: tarn umount "+real)
	}
	if g.inside {
		return nil
	}
	return outcome.New(outcome.Usage, fmt.Sprintf("mount point %s lies in the mount of %s at %s", real, in.Source, in.Point), "name a folder outside of it")
}

// apart refuses a mount point in or above a place.
func apart(real string, p Place) error {
	place := realOf(p.Dir)
	if Within(real, place) || Within(place, real) {
		return overlap(real, p)
	}
	return nil
}

func overlap(dir string, p Place) error {
	return outcome.New(outcome.Usage, fmt.Sprintf("mount point %s and %s %s lie in one another", dir, p.What, p.Dir), "name a folder outside of it")
}

// realOf resolves as much of path as exists.
func realOf(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return filepath.Clean(path)
	}
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return abs
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

func empty(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return outcome.Wrap(outcome.Of(err), "mount point", err, "check its permissions")
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return outcome.Wrap(outcome.Of(err), "mount point", err, "check its permissions")
	}
	return outcome.New(outcome.Usage, fmt.Sprintf("mount point %s is not empty: it holds %s", dir, names[0]), "name an empty folder, or allow it with --allow-non-empty")
}

// statLimited is os.Stat with an end: a folder of a daemon that hangs would
// otherwise hang us too. The goroutine it leaves behind ends with that daemon.
func statLimited(path string) (os.FileInfo, error) {
	type answer struct {
		st  os.FileInfo
		err error
	}
	got := make(chan answer, 1)
	go func() {
		// statfs is asked of the daemon each time; what stat says of a mount's
		// root may be an hour old, and its daemon dead.
		var fsys unix.Statfs_t
		if err := unix.Statfs(path, &fsys); gone(err) {
			got <- answer{nil, &os.PathError{Op: "statfs", Path: path, Err: err}}
			return
		}
		st, err := os.Stat(path)
		got <- answer{st, err}
	}()
	limit := time.NewTimer(statLimit)
	defer limit.Stop()
	select {
	case a := <-got:
		return a.st, a.err
	case <-limit.C:
		return nil, &outcome.Error{Outcome: outcome.Busy, What: fmt.Sprintf("%s does not answer for %s: its daemon hangs", path, statLimit),
			Next: "end it with: tarn umount --lazy " + path, Err: syscall.EBUSY}
	}
}
