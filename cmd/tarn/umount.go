package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/mount"
)

func umountCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "umount",
		Aliases:   []string{"unmount"},
		Usage:     "end a mount, and say what is not committed or not pushed",
		ArgsUsage: "MOUNTPOINT",
		Category:  catRepository,
		Description: manual("Waits for a commit or push that is running, ends the mount with its working folders, and prints\nwhat is not committed or not pushed: it stays in the state folder for the next mount. A mount that\nis in use stays, and the processes that use it are named. A dead mount is always ended.",
			"tarn umount /mnt/towns",
			outcome.NotFound, outcome.Busy, outcome.Permission, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "lazy", Aliases: []string{"l"}, Usage: "end it for all who come later, although it is in use"},
		},
		Action: action(h, 1, 1, func(c *cli.Context, k *call) error {
			return runUmount(c.Context, k, c.Args().First(), umountOptions{Lazy: c.Bool("lazy")})
		}),
	}
}

// umountDoc is what tarn umount prints.
type umountDoc struct {
	Point     string     `json:"mountpoint"`
	Leftovers []leftover `json:"left,omitempty"`
	PID       int        `json:"pid,omitempty"` // of the process that served it
}

// leftover is what a working folder holds that the repository does not.
type leftover struct {
	Branch      string `json:"branch"`
	NotPushed   int    `json:"not_pushed,omitempty"`    // versions
	Uncommitted int    `json:"not_committed,omitempty"` // changes
}

// words are the lines that say so, empty when there is nothing.
func (l leftover) words() []string {
	var lines []string
	if l.NotPushed > 0 {
		lines = append(lines, fmt.Sprintf("not pushed: work/%s, %s", l.Branch, count(l.NotPushed, "version")))
	}
	if l.Uncommitted > 0 {
		lines = append(lines, fmt.Sprintf("not committed: work/%s, %s", l.Branch, count(l.Uncommitted, "change")))
	}
	return lines
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Text is one line for the mount and one for each thing left.
func (d umountDoc) Text() string {
	lines := []string{"unmounted " + d.Point}
	for _, l := range d.Leftovers {
		lines = append(lines, l.words()...)
	}
	if len(lines) > 1 {
		lines = append(lines, "it is kept on this machine for the next mount")
	}
	return strings.Join(lines, "\n")
}

// runUmount asks the daemon. One that does not answer is dead, or hangs: then
// the kernel is asked to end the mount.
func runUmount(ctx context.Context, k *call, point string, o umountOptions) error {
	point, err := k.absolute(point)
	if err != nil {
		return err
	}
	p, err := mountPlace(point)
	if err != nil {
		return err
	}
	// A current folder in the mount would be one more that holds it.
	if err := os.Chdir("/"); err != nil {
		return err
	}
	d, err := ask(ctx, k.host, p, verbUmount, o, nil)
	if err == nil {
		if !o.Lazy {
			waitForEnd(ctx, d)
		}
		return k.report(d)
	}
	if outcome.Of(err) != outcome.Unreachable {
		return err
	}
	if _, gone := mountPlace(point); outcome.Of(gone) == outcome.NotFound {
		return k.report(umountDoc{Point: point}) // it ended while we asked
	}
	k.Log.Info("the mount's daemon does not answer", "mountpoint", point, "error", err)
	if err := mount.Umount(point, o.Lazy); err != nil {
		return err
	}
	return k.report(umountDoc{Point: point})
}

// waitForEnd waits until the daemon's process is gone: until then it holds the
// working folders, and the next mount would find them in use.
func waitForEnd(ctx context.Context, answer remote) {
	var d umountDoc
	if json.Unmarshal(answer.doc, &d) != nil || d.PID <= 0 {
		return
	}
	for deadline := time.Now().Add(endLimit); time.Now().Before(deadline) && parentOf(d.PID) != 0; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// mountPlace is the mount at exactly point, which may be dead: then only its
// parent can be resolved.
func mountPlace(point string) (*place, error) {
	mounts, err := mount.Table()
	if err != nil {
		return nil, err
	}
	try := []string{point}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(point)); err == nil {
		try = append(try, filepath.Join(parent, filepath.Base(point)))
	}
	if real, err := filepath.EvalSymlinks(point); err == nil {
		try = append(try, real)
	}
	for _, path := range try {
		if e, ok := mount.Holding(mounts, path); ok && e.Point == path && e.Ours() {
			return placeInMount(mounts, path), nil
		}
	}
	if outer, ok := outermost(mounts, point); ok {
		return nil, outcome.New(outcome.NotFound, point+" lies in a mount and is none itself", "name the mount point: tarn umount "+outer)
	}
	return nil, outcome.New(outcome.NotFound, point+" is not mounted by tarn", "list the mounts with: findmnt -t "+mount.FSType)
}

// outermost is the mount of ours that a folder lies in: the one whose end is
// also that of the working folders in it.
func outermost(mounts []mount.Entry, dir string) (point string, ok bool) {
	for _, e := range mounts {
		if e.Ours() && mount.Within(dir, e.Point) && (!ok || len(e.Point) < len(point)) {
			point, ok = e.Point, true
		}
	}
	return point, ok
}
