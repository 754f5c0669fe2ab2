package kvtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/kv"
)

// The second process is this test binary, started with a role.
const (
	roleEnv  = "TARN_KVTEST_ROLE"
	placeEnv = "TARN_KVTEST_PLACE"

	roleHold = "hold" // open, say so, commit once a line is read, say what came of it
	roleLoop = "loop" // commit until killed, saying each number that is durable
	roleRace = "race" // open and commit as often as it goes, until fenced
	roleRead = "read" // open for reading, print the content
)

// play is the second process. It speaks lines on stdout.
func play(d Driver, role, place string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := act(ctx, d, role, place); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

func act(ctx context.Context, d Driver, role, place string) error {
	if role == roleRead {
		r, err := d.OpenReader(ctx, place)
		if err != nil {
			return err
		}
		defer r.Close()
		v, err := r.View(ctx)
		if err != nil {
			return err
		}
		defer v.Close()
		for p, err := range v.Scan(ctx, nil, []byte{0xff}, false) {
			if err != nil {
				return err
			}
			fmt.Printf("%s=%s\n", p.Key, p.Value)
		}
		return nil
	}
	w, err := d.OpenWriter(ctx, place)
	if err != nil {
		return err
	}
	fmt.Println("open")
	switch role {
	case roleHold:
		defer w.Close()
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
		var b kv.Batch
		b.Put([]byte("held"), []byte("yes"))
		fmt.Println("commit", outcome(w.Commit(ctx, &b)))
	case roleLoop:
		for ctx.Err() == nil {
			n, err := loopStep(ctx, w)
			if err != nil {
				return err
			}
			fmt.Println("done", n)
		}
	case roleRace:
		defer w.Close()
		for i := 0; i < 10000 && ctx.Err() == nil; i++ {
			n, err := loopStep(ctx, w)
			if err != nil {
				fmt.Println("end", outcome(err))
				return nil
			}
			fmt.Println("done", n)
		}
	}
	return nil
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, kv.ErrFenced):
		return "fenced"
	case errors.Is(err, kv.ErrConflict):
		return "conflict"
	}
	return err.Error()
}

// loopStep raises the counter by one, writes row n and removes row n-3, in
// one batch: at any moment the counter says which rows there are.
func loopStep(ctx context.Context, w kv.Writer) (uint64, error) {
	raw, err := w.Get(ctx, []byte("counter"))
	if err != nil {
		return 0, err
	}
	n := uint64(1)
	if raw != nil {
		n = binary.BigEndian.Uint64(raw) + 1
	}
	var b kv.Batch
	b.Expect([]byte("counter"), raw)
	b.Put([]byte("counter"), binary.BigEndian.AppendUint64(nil, n))
	b.Put(loopRow(n), []byte(strings.Repeat("x", 500)))
	if n > 3 {
		b.Delete(loopRow(n - 3))
	}
	return n, w.Commit(ctx, &b)
}

func loopRow(n uint64) []byte { return fmt.Appendf(nil, "row%08d", n) }

// checkLoop verifies that counter and rows agree, and gives the counter.
func checkLoop(t testing.TB, w kv.Store) uint64 {
	t.Helper()
	raw, err := w.Get(t.Context(), []byte("counter"))
	if err != nil {
		t.Fatal(err)
	}
	if raw == nil {
		return 0
	}
	n := binary.BigEndian.Uint64(raw)
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	next := uint64(1)
	if n > 3 {
		next = n - 2
	}
	for p, err := range v.Scan(t.Context(), []byte("row"), []byte("rox"), false) {
		if err != nil {
			t.Fatal(err)
		}
		if string(p.Key) != string(loopRow(next)) {
			t.Fatalf("counter %d, but row %s where %s should be", n, p.Key, loopRow(next))
		}
		next++
	}
	if next != n+1 {
		t.Fatalf("counter %d, but the last row is %d", n, next-1)
	}
	return n
}

// child is a running second process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func start(t testing.TB, role, place string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), roleEnv+"="+role, placeEnv+"="+place)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, in: in, lines: make(chan string, 1<<16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		c.kill()
		<-done
	})
	return c
}

// line waits for the next line; "" when the process is gone.
func (c *child) line(t testing.TB) string {
	t.Helper()
	select {
	case l := <-c.lines:
		return l
	case <-time.After(30 * time.Second):
		t.Fatal("second process says nothing")
		return ""
	}
}

func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// rest are the numbers of the "done" lines that are left, and the last other line.
func (c *child) rest(t testing.TB) (done []uint64, other string) {
	t.Helper()
	for {
		l := c.line(t)
		if l == "" {
			return done, other
		}
		if s, ok := strings.CutPrefix(l, "done "); ok {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, n)
		} else {
			other = l
		}
	}
}
