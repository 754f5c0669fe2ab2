package counters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
)

// A child process that is killed in the middle of a commit.

const (
	childEnv  = "TARN_COUNTERS_CHILD" // what the child does before it kills itself
	childPath = "TARN_COUNTERS_STORE"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(childEnv); how != "" {
		fmt.Fprintln(os.Stderr, die(how, os.Getenv(childPath)))
		os.Exit(3) // it should be dead by now
	}
	os.Exit(m.Run())
}

// die allocates one id of each domain and is killed before the commit, or
// after it but before anything in memory was told.
func die(how, path string) error {
	ctx := context.Background()
	w, err := sqlitekv.OpenWriter(ctx, path, nil)
	if err != nil {
		return err
	}
	c, err := counters.Load(ctx, w)
	if err != nil {
		return err
	}
	tx, err := c.Begin(ctx, w)
	if err != nil {
		return err
	}
	var b kv.Batch
	for _, d := range counters.Domains() {
		id, err := tx.Alloc(d)
		if err != nil {
			return err
		}
		b.Put(fmt.Appendf(nil, "row of %v %d", d, id), []byte{1})
	}
	id, err := tx.AllocColumn(ctx, 7)
	if err != nil {
		return err
	}
	b.Put(fmt.Appendf(nil, "column %d", id), []byte{1})
	tx.Stage(&b)
	if how == "after" {
		if err := w.Commit(ctx, &b); err != nil {
			return err
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func killed(t *testing.T, how, path string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+how, childPath+"="+path)
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("child: %v\n%s", err, out)
	}
}
