package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/mount"
)

// placeKind is what a command found itself in.
type placeKind int

const (
	placeURL        placeKind = iota + 1 // named by --repo or TARN_REPO
	placeRepository                      // a repository's own folder
	placeCheckout                        // a plain working folder, see tarn checkout
	placeMount                           // a mounted folder: its daemon does the work
)

// place is the outcome of looking for a repository.
type place struct {
	Kind placeKind
	Dir  string // top of the mount, checkout or repository
	Rel  string // where in the mounted tree the command stands: branches/main; "" at its top
	URL  string // the repository
	UID  uint32 // placeMount: who mounted it
	// Branch is that of a checkout; a mount's daemon is asked for it.
	Branch string
}

// find looks for the repository of a command in the order of design section 2.
// A --repo on the command line is never overruled by the folder one happens
// to stand in.
func (k *call) find() (*place, error) {
	if k.Repo != "" {
		return k.named(k.Repo)
	}
	return k.findFrom("")
}

// findFrom starts at path, or at -C or the current folder when path is empty.
// Only the current folder, which nobody named, may fall back to TARN_REPO.
func (k *call) findFrom(path string) (*place, error) {
	asked := path != "" || k.Path != ""
	start, err := k.absolute(path)
	if err != nil {
		return nil, err
	}
	p, err := findPlace(start)
	if p != nil || err != nil {
		return p, err
	}
	if asked {
		return nil, outcome.New(outcome.NotFound, start+" is in no mount, working folder or repository",
			"is it mounted? To mount it: tarn mount URL "+start)
	}
	if url := k.Getenv("TARN_REPO"); url != "" {
		return k.named(url)
	}
	return nil, outcome.New(outcome.NotFound, "no repository here: "+start+" is in no mount, working folder or repository",
		"name one with -C PATH, --repo URL or TARN_REPO; to make one: tarn init URL")
}

func (k *call) named(url string) (*place, error) {
	url, err := k.absoluteURL(url)
	if err != nil {
		return nil, err
	}
	return &place{Kind: placeURL, URL: url}, nil
}

// findPlace walks up from start, which is absolute. Nothing found is (nil, nil).
func findPlace(start string) (*place, error) {
	mounts, err := mount.Table()
	if err != nil {
		return nil, err
	}
	// Before links are followed: nothing below a mount whose daemon is dead can be looked at.
	if p := placeInMount(mounts, start); p != nil {
		return p, nil
	}
	real, err := filepath.EvalSymlinks(start)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, outcome.New(outcome.NotFound, start+" does not exist", "name a folder that is there")
	case errors.Is(err, syscall.ENOTDIR):
		return nil, outcome.New(outcome.NotFound, start+" is not a folder", "name a folder")
	case err != nil:
		return nil, fmt.Errorf("look for a repository: %w", err)
	}
	if p := placeInMount(mounts, real); p != nil {
		return p, nil
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		if _, _, ok := engine.IsCheckout(dir); ok {
			return checkoutPlace(dir, real), nil
		}
		if isRepository(dir) {
			return &place{Kind: placeRepository, Dir: dir, Rel: relative(real, dir), URL: dir}, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, nil
		}
	}
}

func placeInMount(mounts []mount.Entry, path string) *place {
	e, ok := mount.Holding(mounts, path)
	if !ok || !e.Ours() {
		return nil
	}
	o := originOf(mounts, e)
	return &place{
		Kind: placeMount,
		Dir:  o.Point,
		Rel:  relative(filepath.Join(e.Root, relative(path, e.Point)), "/"),
		URL:  repositoryOf(o.Source),
		UID:  o.UID(),
	}
}

// repositoryOf takes off what package mount adds to the source of working
// folders that are mounted elsewhere: "#" and the mount point of their repository.
func repositoryOf(source string) string {
	if i := strings.LastIndex(source, "#/"); i >= 0 {
		return source[:i]
	}
	return source
}

// isRepository asks for the one file without which nothing is a repository; a
// half-deleted one is still meant, and the engine says what it lacks.
func isRepository(dir string) bool {
	st, err := os.Lstat(filepath.Join(dir, "fdl.json"))
	return err == nil && st.Mode().IsRegular()
}

func checkoutPlace(dir, start string) *place {
	url, branch, _ := engine.IsCheckout(dir)
	return &place{Kind: placeCheckout, Dir: dir, Rel: relative(start, dir), URL: url, Branch: branch}
}
