package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/tarnfs/tarn/engine/lake"
)

// dyingEnv names the folder through which a test tells its workers when to die.
const dyingEnv = "TARN_TEST_DYING"

// Dying are workers that die at a request, which is counted over all of them.
type Dying struct{ dir string }

// Moments at which a worker dies.
const (
	Before = "before" // it has read the request and done nothing
	After  = "after"  // it has done it, and the answer is lost
)

// NewDying makes workers that die as told through files in dir.
func NewDying(dir string) (*Dying, *lake.ClientOptions) {
	return &Dying{dir}, &lake.ClientOptions{Env: []string{dyingEnv + "=" + dir}}
}

// Arm lets the worker that gets the n-th request from now on, counted from 0, die.
func (d *Dying) Arm(n int, moment string) error {
	if err := os.WriteFile(filepath.Join(d.dir, "count"), nil, 0o600); err != nil {
		return err
	}
	tmp := filepath.Join(d.dir, "arm.new")
	if err := os.WriteFile(tmp, fmt.Appendf(nil, "%d %s", n, moment), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(d.dir, "arm"))
}

// Disarm lets all live on. It gives the requests since Arm, such as "rows
// table", and whether one was the end of a worker.
func (d *Dying) Disarm() (requests []string, died bool, err error) {
	text, err := os.ReadFile(filepath.Join(d.dir, "arm"))
	if err != nil {
		return nil, false, err
	}
	n, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		return nil, false, err
	}
	if err := os.Remove(filepath.Join(d.dir, "arm")); err != nil {
		return nil, false, err
	}
	b, err := os.ReadFile(filepath.Join(d.dir, "count"))
	if err != nil {
		return nil, false, err
	}
	for i := 0; i+record <= len(b); i += record {
		requests = append(requests, strings.TrimSpace(string(b[i:i+record])))
	}
	return requests, len(requests) > n, nil
}

// record is the size of a request's name in the file that counts them: an
// append gives each its number.
const record = 48

// WorkerPipes are stdin and stdout of a worker as it is to use them: a test
// binary passes its own through it before it becomes a worker.
func WorkerPipes(in io.Reader, out io.Writer) (io.Reader, io.Writer) {
	dir := os.Getenv(dyingEnv)
	if dir == "" {
		return in, out
	}
	d := &dyingWorker{dir: dir}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() { inW.CloseWithError(d.requests(in, inW)) }()
	go func() { outR.CloseWithError(d.answers(outR, out)) }()
	return inR, outW
}

type dyingWorker struct {
	dir  string
	last atomic.Bool // the request under way is the last
}

// requests hands on what the client sends.
func (d *dyingWorker) requests(in io.Reader, w io.Writer) error {
	pipe := lake.NewPipe(in, w)
	for {
		kind, body, err := pipe.Recv()
		if err != nil {
			return err
		}
		if kind == lake.FrameRequest {
			moment, err := d.count(body)
			if err != nil {
				return err
			}
			if moment == Before {
				die()
			}
			d.last.Store(moment == After)
		}
		if err := errors.Join(pipe.Send(kind, body), pipe.Flush()); err != nil {
			return err
		}
	}
}

// count notes a request, and says when to die in it.
func (d *dyingWorker) count(body []byte) (moment string, err error) {
	text, err := os.ReadFile(filepath.Join(d.dir, "arm"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var r lake.Request
	var rows lake.RowsRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return "", err
	}
	if r.Op == lake.OpRows {
		if err := json.Unmarshal(r.Body, &rows); err != nil {
			return "", err
		}
	}
	f, err := os.OpenFile(filepath.Join(d.dir, "count"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%-*s", record, r.Op+" "+rows.Table); err != nil {
		return "", err
	}
	end, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", err
	}
	var n int64
	if _, err := fmt.Sscan(string(text), &n, &moment); err != nil {
		return "", err
	}
	if end/record-1 != n {
		return "", nil
	}
	return moment, nil
}

// answers hands on what the worker answers.
func (d *dyingWorker) answers(r io.Reader, out io.Writer) error {
	pipe := lake.NewPipe(r, out)
	for {
		kind, body, err := pipe.Recv()
		if err != nil {
			return err
		}
		if d.last.Load() && (kind == lake.FrameAnswer || kind == lake.FrameError) {
			die()
		}
		if err := errors.Join(pipe.Send(kind, body), pipe.Flush()); err != nil {
			return err
		}
	}
}

// die ends the process so that nothing more of it runs.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
