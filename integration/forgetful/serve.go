package forgetful

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// run mounts the disk, says "ready", and then answers each line with a line,
// "ok" or the error, until in ends.
func run(dir string, in io.Reader, out io.Writer) error {
	d, err := load(dir)
	if err != nil {
		return err
	}
	long := time.Minute // whatever changes, the kernel has done it
	opts := &gofuse.Options{EntryTimeout: &long, AttrTimeout: &long, NullPermissions: true, RootStableAttr: &gofuse.StableAttr{Ino: d.root.ino}}
	opts.MountOptions = fuse.MountOptions{
		Name: "forgetful", FsName: "forgetful", AllowOther: os.Geteuid() == 0, DirectMount: os.Geteuid() == 0,
		Options: []string{"default_permissions"}, DisableXAttrs: true,
	}
	if _, err := gofuse.Mount(dir, &node{d: d, in: d.root}, opts); err != nil {
		return fmt.Errorf("mount over %s: %w", dir, err)
	}
	s := &server{d: d, dir: dir}
	defer func() {
		if s.left == nil {
			_ = s.unmount() // at worst the test finds its folder busy
		}
	}()
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer := "ok"
		if err := s.answer(lines.Text()); err != nil {
			answer = err.Error()
		}
		fmt.Fprintln(out, answer)
	}
	return nil
}

// server is the disk and where it is mounted.
type server struct {
	d    *disk
	dir  string
	left map[Lose]*disk // what a power cut left, by what it took; nil: not cut yet
}

func (s *server) answer(line string) error {
	if lose, ok := parseLose(line); ok {
		if s.left == nil {
			s.cut()
			if err := s.unmount(); err != nil {
				return err
			}
		}
		return s.left[lose].save(s.dir)
	}
	if line != "sync" || s.left != nil {
		return fmt.Errorf("%q is no command now", line)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.syncAll()
	return nil
}

// cut keeps what is durable at this moment. Whoever still has files open may
// go on; nobody will see it.
func (s *server) cut() {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.left = map[Lose]*disk{LoseAll: s.d.survivors(LoseAll), LoseBytes: s.d.survivors(LoseBytes)}
}

// unmount is lazy: programs that are being killed may still be there.
func (s *server) unmount() error {
	err := unix.Unmount(s.dir, unix.MNT_DETACH)
	if err != nil && os.Geteuid() != 0 {
		err = exec.Command("fusermount3", "-uz", s.dir).Run()
	}
	return err
}
