package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/lake"
)

// pipe is a named pipe through which DuckDB's COPY hands over rows as it makes
// them. The driver of DuckDB has no such way: it gathers the whole result of a
// query in memory before the first row is read.
type pipe struct {
	dir  string
	path string
}

// newPipe makes a pipe below the temp folder of this worker.
func newPipe(l limits) (*pipe, error) {
	var p pipe
	var err error
	if l.temp != "" {
		p.dir = lake.WorkerTemp(l.temp, os.Getpid())
		err = os.MkdirAll(p.dir, 0o700)
	} else {
		p.dir, err = os.MkdirTemp("", "tarn-rows-")
	}
	if err != nil {
		return nil, err
	}
	p.path = filepath.Join(p.dir, "rows")
	if err := unix.Mkfifo(p.path, 0o600); err != nil {
		p.close()
		return nil, fmt.Errorf("make pipe %s: %w", p.path, err)
	}
	return &p, nil
}

func (p *pipe) close() { _ = os.RemoveAll(p.dir) } // the daemon removes it again when the worker ends

// copy runs a query and gives take what COPY writes of it. The first error of
// the two is the one that counts: the other follows from it.
func (p *pipe) copy(ctx context.Context, d *duck, query, options string, take func(io.Reader) error) error {
	// Opening for reading alone does not wait for a writer, and our own writing
	// end keeps the pipe from ending before DuckDB has opened it.
	r, err := os.OpenFile(p.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	keep, err := os.OpenFile(p.path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	made := make(chan error, 1)
	go func() {
		err := d.exec(ctx, "COPY ("+query+") TO "+text(p.path)+" ("+options+", USE_TMP_FILE false)")
		made <- errors.Join(err, keep.Close())
	}()
	taken := take(r)
	if taken != nil {
		cancel(taken)
		_, _ = io.Copy(io.Discard, r) // a writer that waits for room does not see the cancellation
	}
	err = <-made
	if taken != nil {
		return taken
	}
	return err
}
