package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
)

// ErrClosed: the Client was closed.
var ErrClosed = errors.New("lake: worker client is closed")

// Defaults of ClientOptions.
const (
	DefaultLimit       = 10 * time.Minute
	DefaultTxLimit     = 30 * time.Minute
	DefaultMemoryLimit = "1GB"
)

// stateless is how many requests outside a transaction run at once; more wait
// their turn. Each may use MemoryLimit.
const stateless = 2

// ClientOptions adjust a Client. Nil and the zero value work.
type ClientOptions struct {
	Command     []string      // program and arguments of the worker; default: this binary, "worker"
	Env         []string      // the child's whole environment besides LC_ALL and TZ
	Log         *slog.Logger  // nil: discard
	Limit       time.Duration // for one request, default DefaultLimit
	TxLimit     time.Duration // from Begin to Commit or Rollback, default DefaultTxLimit
	MemoryLimit string        // DuckDB's memory_limit, default DefaultMemoryLimit
	TempDir     string        // absolute folder for what does not fit in memory; "": such a request fails
}

// Client starts and feeds worker processes. One idle child is kept; a
// transaction has a child of its own while it is open. A child that dies or
// overruns its limit takes only its own request with it.
//
// A Client may be used from any goroutine.
type Client struct {
	o    ClientOptions
	turn chan struct{} // one token per stateless request under way

	mu       sync.Mutex // guards what follows; never held during I/O
	closed   bool
	idle     *child
	children map[*child]struct{} // started and not yet reaped
	swept    bool                // leftovers in TempDir were removed
}

// NewClient makes a Client; no process is started before the first request.
func NewClient(o *ClientOptions) *Client {
	c := &Client{turn: make(chan struct{}, stateless), children: make(map[*child]struct{})}
	if o != nil {
		c.o = *o
	}
	if len(c.o.Command) == 0 {
		c.o.Command = []string{"/proc/self/exe", "worker"}
	}
	if c.o.Log == nil {
		c.o.Log = slog.New(slog.DiscardHandler)
	}
	if c.o.Limit <= 0 {
		c.o.Limit = DefaultLimit
	}
	if c.o.TxLimit <= 0 {
		c.o.TxLimit = DefaultTxLimit
	}
	if c.o.MemoryLimit == "" {
		c.o.MemoryLimit = DefaultMemoryLimit
	}
	return c
}

// Ping answers when a worker does.
func (c *Client) Ping(ctx context.Context) error { return c.call(ctx, OpPing, struct{}{}, nil) }

// Create makes an empty working catalog.
func (c *Client) Create(ctx context.Context, r CreateRequest) error {
	return c.call(ctx, OpCreate, r, nil)
}

// Thaw makes a working catalog from a frozen one.
func (c *Client) Thaw(ctx context.Context, r ThawRequest) error { return c.call(ctx, OpThaw, r, nil) }

// Sniff looks at a dropped file. A file that cannot be read as its format is a *ValueError.
func (c *Client) Sniff(ctx context.Context, r SniffRequest) (*Sniffed, error) {
	return answer[Sniffed](ctx, c, OpSniff, r)
}

// Convert writes a dropped file as Parquet of the wanted columns.
func (c *Client) Convert(ctx context.Context, r ConvertRequest) (*Converted, error) {
	return answer[Converted](ctx, c, OpConvert, r)
}

// Rewrite writes the rows of a stored data file as its table shows them.
func (c *Client) Rewrite(ctx context.Context, r RewriteRequest) (*Converted, error) {
	return answer[Converted](ctx, c, OpRewrite, r)
}

// SameRows compares two sets of data files as multisets of rows.
func (c *Client) SameRows(ctx context.Context, r SameRowsRequest) (*Compared, error) {
	return answer[Compared](ctx, c, OpSameRows, r)
}

// DiffRows lists the rows that two sets of data files do not have alike.
func (c *Client) DiffRows(ctx context.Context, r DiffRowsRequest) (*DiffRows, error) {
	return answer[DiffRows](ctx, c, OpDiffRows, r)
}

// Parse says what SQL texts are, one answer each.
func (c *Client) Parse(ctx context.Context, r ParseRequest) ([]Parsed, error) {
	p, err := answer[[]Parsed](ctx, c, OpParse, r)
	if err != nil {
		return nil, err
	}
	return *p, nil
}

// Query runs SQL and writes its rows to w as they come. What is wrong with the
// SQL is ErrQuery. A worker is held until the end; an error of w ends the query.
func (c *Client) Query(ctx context.Context, r QueryRequest, w io.Writer) error {
	return c.withChild(ctx, OpQuery, func(ch *child) error {
		s, err := ch.stream(ctx, c.o.Limit, c.request(OpQuery, r))
		if err != nil {
			return err
		}
		for !s.done {
			text, err := s.receive()
			if err != nil {
				return err
			}
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		return s.err
	})
}

// Export writes a table as a file.
func (c *Client) Export(ctx context.Context, r ExportRequest) (*Converted, error) {
	return answer[Converted](ctx, c, OpExport, r)
}

// TableRow is a row and the table it is of.
type TableRow struct {
	Table *catalog.Table
	Row   catalog.Row
}

// ReadFrozen yields every row of a frozen catalog, table by table in the order
// of catalog.Tables. A worker is held until the loop ends.
func (c *Client) ReadFrozen(ctx context.Context, r ReadFrozenRequest) iter.Seq2[TableRow, error] {
	return func(yield func(TableRow, error) bool) {
		err := c.withChild(ctx, OpReadFrozen, func(ch *child) error {
			s, err := ch.stream(ctx, c.o.Limit, c.request(OpReadFrozen, r))
			if err != nil {
				return err
			}
			for {
				row, err := s.next()
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
				if !yield(row, nil) {
					return errStopped
				}
			}
		})
		if err != nil && err != errStopped {
			yield(TableRow{}, err)
		}
	}
}

// errStopped: the consumer of a stream left its loop.
var errStopped = errors.New("lake: stopped")

// Pids lists the children that are not yet reaped, for tests and fault drills.
func (c *Client) Pids() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pids []int
	for ch := range c.children {
		pids = append(pids, ch.pid)
	}
	slices.Sort(pids)
	return pids
}

// Close ends every child and waits for it, at most closeLimit. Requests under
// way end with ErrClosed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	c.idle = nil
	var all []*child
	for ch := range c.children {
		all = append(all, ch)
	}
	c.mu.Unlock()
	for _, ch := range all {
		if ch == idle {
			ch.dismiss()
		} else {
			ch.kill(ErrClosed)
		}
	}
	limit := time.After(closeLimit)
	for _, ch := range all {
		select {
		case <-ch.reaped:
		case <-limit:
			return fmt.Errorf("lake: worker %d did not end within %s", ch.pid, closeLimit)
		}
	}
	return nil
}

// answer runs a stateless request and decodes what it answers.
func answer[T any](ctx context.Context, c *Client, op string, body any) (*T, error) {
	v := new(T)
	if err := c.call(ctx, op, body, v); err != nil {
		return nil, err
	}
	return v, nil
}

// call runs a stateless request on a pooled child. answer may be nil.
func (c *Client) call(ctx context.Context, op string, body, answer any) error {
	return c.withChild(ctx, op, func(ch *child) error {
		return ch.call(ctx, c.o.Limit, c.request(op, body), answer)
	})
}

// request fills in the limits that every request carries.
func (c *Client) request(op string, body any) *Request {
	raw, err := json.Marshal(body)
	if err != nil { // request types hold only strings, numbers and maps of them
		panic(fmt.Sprintf("lake: request %s: %v", op, err))
	}
	return &Request{Op: op, Body: raw, MemoryLimit: c.o.MemoryLimit, TempDir: c.o.TempDir}
}

// withChild waits for its turn and lends a child to fn.
func (c *Client) withChild(ctx context.Context, op string, fn func(*child) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := time.NewTimer(c.o.Limit)
	defer wait.Stop()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return fmt.Errorf("%w: %s waited %s for its turn", ErrTimeout, op, c.o.Limit)
	}
	ch, err := c.take()
	if err != nil {
		return err
	}
	defer c.giveBack(ch)
	return fn(ch)
}

// take lends the idle child, or a new one.
func (c *Client) take() (*child, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	ch := c.idle
	c.idle = nil
	c.mu.Unlock()
	if ch != nil {
		if ch.alive() {
			return ch, nil
		}
		ch.kill(ErrWorkerDied)
	}
	return c.start()
}

// giveBack keeps a healthy child for the next request, if there is none yet.
func (c *Client) giveBack(ch *child) {
	c.mu.Lock()
	keep := !c.closed && c.idle == nil && ch.idle()
	if keep {
		c.idle = ch
	}
	c.mu.Unlock()
	if !keep {
		ch.dismiss()
	}
}
