// Package forgetful lays a disk over a folder that forgets, when told so, all
// that no fsync has made durable: the bytes of files, and the names in folders,
// each with a sync of its own. It is how tests cut the power.
//
// It is stricter than most file systems. Only fsync of a folder makes a name in
// it durable, never that of the file; a rename keeps the old name until the
// folder of the new one is synced.
//
// The disk is served by another process than the test's, because a Go process
// that uses a FUSE mount of its own can wait for itself: the test's program
// started again, which is why a test package that uses Start calls Serve from
// an init function.
//
// It must not know what is stored on it.
package forgetful

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Lose says what a power cut takes. Both are allowed to a file system: the
// second is what one leaves that writes its journal of names before the bytes.
type Lose string

const (
	LoseAll   Lose = "all"   // every byte and every name that was not synced
	LoseBytes Lose = "bytes" // the bytes only: files are there as they were when last synced
)

// serveEnv names the folder to a process that is to serve.
const serveEnv = "TARN_TEST_FORGETFUL"

// Serve makes this process the server of a disk, if Start has made it for that,
// and then never returns.
func Serve() {
	dir := os.Getenv(serveEnv)
	if dir == "" {
		return
	}
	if err := run(dir, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "forgetful:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Disk is a mounted disk.
type Disk struct {
	t   testing.TB
	in  *os.File
	out *bufio.Scanner
}

// Start lays a disk over dir, with what is in it. At the end of the test it is
// unmounted; what was not cut off before is lost.
func Start(t testing.TB, dir string) *Disk {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), serveEnv+"="+dir), os.Stderr
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	r.Close()
	if err != nil {
		in.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server of the forgetful disk: %v", err)
		}
	})
	d := &Disk{t: t, in: in, out: bufio.NewScanner(out)}
	d.wait("ready")
	return d
}

func (d *Disk) wait(want string) {
	d.t.Helper()
	if !d.out.Scan() || d.out.Text() != want {
		d.t.Fatalf("forgetful disk: %q, want %q", d.out.Text(), want)
	}
}

func (d *Disk) ask(line string) {
	d.t.Helper()
	if _, err := fmt.Fprintln(d.in, line); err != nil {
		d.t.Fatal(err)
	}
	d.wait("ok")
}

// Sync is sync(2). It also stands for syncfs(2), of which the kernel tells a
// FUSE server nothing.
func (d *Disk) Sync() {
	d.t.Helper()
	d.ask("sync")
}

// Lose cuts the power: the folder is an ordinary one again and holds what was
// durable. Programs that had files open may go on, and nobody will see it.
// Asked again it makes the folder anew, from the same moment.
func (d *Disk) Lose(what Lose) {
	d.t.Helper()
	d.ask("lose " + string(what))
}

// parseLose reads "lose WHAT".
func parseLose(line string) (Lose, bool) {
	what, ok := strings.CutPrefix(line, "lose ")
	return Lose(what), ok && (Lose(what) == LoseAll || Lose(what) == LoseBytes)
}
