package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
)

// unmountTries and unmountPause cover the moment between a client's close
// and the kernel's release of its file.
const (
	unmountTries = 5
	unmountPause = 20 * time.Millisecond
	// helperLimit is how long fusermount3 may take.
	helperLimit = 20 * time.Second
)

// workSource is the source of a working mount that does not lie in its
// repository's mount: it names that one, so that Umount finds the pair.
func workSource(repo, main string) string { return repo + "#" + main }

// Umount ends the mounts at mountpoint, from any process: first what Tarn
// mounted below it and its working folders elsewhere, then itself. A busy
// mount is a BusyError that names who holds it, and nothing is ended; lazy
// ends it for all who come later. A dead mount is always ended.
func Umount(mountpoint string, lazy bool) error {
	abs, err := filepath.Abs(mountpoint)
	if err != nil {
		return fmt.Errorf("umount %s: %w", mountpoint, err)
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(parent, filepath.Base(abs))
	}
	table, err := Table()
	if err != nil {
		return err
	}
	top, ok := topAt(table, abs)
	if !ok {
		// A link to a mount point is followed; a dead one cannot be.
		if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
			abs = real
			top, ok = topAt(table, abs)
		}
	}
	if !ok || !top.Ours() {
		return outcome.New(outcome.NotFound, abs+" is not mounted by tarn", "list the mounts with: findmnt -t "+FSType)
	}
	points, inner := belonging(table, top)
	if dead(abs) {
		return endAll(points, true)
	}
	if lazy {
		return endAll(points, true)
	}
	if inner != "" {
		return busy(&BusyError{Dir: abs, Inner: inner})
	}
	if who := holders(points...); len(who) > 0 {
		return busy(&BusyError{Dir: abs, Holders: who})
	}
	return endAll(points, false)
}

// belonging lists the mount points that end with top, innermost first and top
// last, and a mount of others that lies among them.
func belonging(table []Entry, top Entry) (points []string, inner string) {
	for i := len(table) - 1; i >= 0; i-- {
		e := table[i]
		switch {
		case e.ID == top.ID:
		case e.Ours() && strings.HasSuffix(e.Source, "#"+top.Point):
			points = append(points, e.Point)
		case Within(e.Point, top.Point) && e.Point != top.Point:
			if e.Ours() {
				points = append(points, e.Point)
			} else {
				inner = e.Point
			}
		}
	}
	return append(points, top.Point), inner
}

// dead says that the daemon of a mount is gone.
func dead(point string) bool {
	_, err := statLimited(point)
	return gone(err)
}

// gone says that the daemon is: ECONNABORTED is what the kernel answers to who
// was waiting when it died.
func gone(err error) bool {
	return errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNABORTED)
}

func endAll(points []string, lazy bool) error {
	for _, p := range points {
		err := unmountRetry(p, lazy)
		if err != nil && lazy && gone(err) {
			continue // inside a dead mount; it goes with the outer one
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unmountRetry ends one mount point, or says who keeps it.
func unmountRetry(point string, lazy bool) error {
	var err error
	for try := range unmountTries {
		if try > 0 {
			time.Sleep(unmountPause << try)
		}
		if err = unmountPoint(point, lazy); err == nil || !errors.Is(err, syscall.EBUSY) {
			break
		}
	}
	if errors.Is(err, syscall.EBUSY) {
		b := &BusyError{Dir: point, Holders: holders(point)}
		if table, terr := Table(); terr == nil {
			for _, e := range table {
				if Within(e.Point, point) && e.Point != point {
					b.Inner = e.Point
				}
			}
		}
		return busy(b)
	}
	if err != nil {
		return outcome.Wrap(outcome.Of(err), "umount "+point, err, "try: umount -l "+point)
	}
	return nil
}

// unmountPoint is one try. Root asks the kernel, others fusermount3.
func unmountPoint(point string, lazy bool) error {
	if os.Geteuid() == 0 {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		return unix.Unmount(point, flags)
	}
	bin, err := helper()
	if err != nil {
		return err
	}
	args := []string{"-u"}
	if lazy {
		args = append(args, "-z")
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append(args, "--", point)...)
	cmd.Dir = "/"
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		if strings.Contains(said.String(), "busy") {
			return syscall.EBUSY
		}
		return fmt.Errorf("%s: %s: %w", filepath.Base(bin), strings.TrimSpace(said.String()), err)
	}
	return nil
}

// helper finds fusermount3, also with an empty PATH (a mount from fstab).
func helper() (string, error) {
	for _, name := range []string{"fusermount3", "/usr/bin/fusermount3", "/bin/fusermount3"} {
		if bin, err := exec.LookPath(name); err == nil {
			return bin, nil
		}
	}
	return "", outcome.New(outcome.NotFound, "fusermount3 is not installed; without it only root can mount", "install the package fuse3")
}
