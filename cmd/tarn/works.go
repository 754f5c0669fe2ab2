package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/fs"
	"github.com/tarnfs/tarn/mount"
)

// branches are those with an open working folder, sorted.
func (d *daemon) branches() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.works))
	for b := range d.works {
		names = append(names, b)
	}
	slices.Sort(names)
	return names
}

func (d *daemon) work(branch string) *engine.Work {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.works[branch]
}

// Folder is the working folder that path below the mount point point lies in.
func (d *daemon) Folder(point, path string) (folder, error) {
	doc := d.describe()
	branch, err := doc.folderAt(point, path)
	if err != nil {
		return nil, err
	}
	w := d.work(branch)
	if w == nil { // closed meanwhile
		return nil, outcome.New(outcome.NotFound, "work/"+branch+" is not open", "open it with: mkdir "+filepath.Join(doc.Work, branch))
	}
	return &localFolder{work: w}, nil
}

// folderAt is the branch of the working folder that path below the mount point
// point lies in. At the top of the mount it is the only one, if there is only one.
func (d mountDoc) folderAt(point, path string) (branch string, err error) {
	if d.Work == "" {
		return "", outcome.New(outcome.NotFound, d.Point+" is mounted read-only, without working folders", "mount it without --read-only")
	}
	branch, ok := d.branchAt(point, path)
	if ok {
		return branch, nil
	}
	if at := filepath.Join(point, path); at != d.Work && mount.Within(at, d.Work) {
		return "", outcome.New(outcome.NotFound, at+" is in no open working folder", "open that of a branch with: mkdir "+filepath.Join(d.Work, "BRANCH"))
	}
	if len(d.Open) != 1 {
		return "", outcome.New(outcome.Usage, fmt.Sprintf("which working folder? open are: %s", strings.Join(d.Open, ", ")), "name it: "+filepath.Join(d.Work, "BRANCH"))
	}
	return d.Open[0], nil
}

// leftovers says what the open working folders hold that the repository does not.
func (d *daemon) leftovers(ctx context.Context) []leftover {
	var all []leftover
	for _, b := range d.branches() {
		w := d.work(b)
		if w == nil {
			continue
		}
		l, err := leftOf(ctx, w)
		if err != nil {
			// The end of a mount does not hang on this; the folder itself will say it.
			d.k.Log.Warn("cannot tell what is left", "branch", b, "error", err)
			continue
		}
		if l.NotPushed+l.Uncommitted > 0 {
			all = append(all, l)
		}
	}
	return all
}

func leftOf(ctx context.Context, w *engine.Work) (leftover, error) {
	s, err := w.Status(ctx)
	if err != nil {
		return leftover{}, err
	}
	return leftover{Branch: s.Branch, NotPushed: len(s.Unpushed), Uncommitted: len(s.Changes) + len(s.Problems)}, nil
}

// common are the options of both trees.
func (d *daemon) common() fs.Common {
	c := fs.Common{Log: d.k.Log}
	if dir := d.localRoot(); dir != "" {
		c.StatfsDir = dir
	}
	return c
}

// localRoot is the repository's folder, "" for a remote one.
func (d *daemon) localRoot() string {
	if strings.Contains(d.engine.URL(), "://") {
		return ""
	}
	return d.engine.URL()
}

func (d *daemon) pairOptions() mount.PairOptions {
	links := fs.Symlinks
	if d.o.Links == "folders" {
		links = fs.Folders
	}
	point := d.o.Point
	if real, err := filepath.EvalSymlinks(point); err == nil {
		point = real // attach.sql names the folder by its own name, not by a link to it
	}
	o := mount.PairOptions{
		Repo: mount.MountOptions{
			Root:       fs.NewRoot(d.engine, fs.RootOptions{Common: d.common(), MountPoint: point, Links: links, WithWork: d.tree != nil && d.o.Work == ""}),
			Dir:        d.o.Point,
			FsName:     d.engine.Address(), // commands open the repository by it
			AllowOther: d.o.AllowOther,
			Negative:   fs.Forever,
			Extra:      d.o.Extra,
			Guard:      mount.Guard{Make: d.o.Mkdir, AllowNonEmpty: d.o.AllowNonEmpty, Avoid: d.avoid()},
			Debug:      d.o.DebugFUSE,
			Log:        d.k.Log,
		},
		WorkDir: d.o.Work,
	}
	if d.tree == nil { // a nil *fs.Work would be a root that is not nil
		return o
	}
	o.Work = d.tree
	if d.o.Work == "" {
		// Who is not root cannot mount inside a mount: one tree holds both.
		o.Together = fs.NewRoot(d.engine, fs.RootOptions{Common: d.common(), MountPoint: point, Links: links, Work: d.tree})
	}
	return o
}

// avoid are the folders whose files the daemon itself uses.
func (d *daemon) avoid() []mount.Place {
	var places []mount.Place
	if dir := d.localRoot(); dir != "" {
		places = append(places, mount.Place{What: "the repository", Dir: dir})
	}
	for _, p := range []struct{ what, env, below string }{
		{"the state folder", "XDG_STATE_HOME", ".local/state"},
		{"the cache", "XDG_CACHE_HOME", ".cache"},
	} {
		if dir, err := d.k.xdg(p.env, p.below); err == nil {
			places = append(places, mount.Place{What: p.what, Dir: filepath.Join(dir, "tarn")})
		}
	}
	return places
}
