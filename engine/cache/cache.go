package cache

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/tarnfs/tarn/blobstore"
)

const (
	// DefaultSize is how much the folder may hold when nothing else is said.
	DefaultSize = 10 << 30
	// maxMinFree bounds the free space that is kept when nothing else is said,
	// a twentieth of the disk.
	maxMinFree = 1 << 30
	// blockSize: large enough that a request's latency does not rule, small
	// enough that reading in places costs little more than what is asked for.
	blockSize = 1 << 20
	// defaultMemory holds 64 blocks, and as many may be under way.
	defaultMemory = 64 << 20
	// defaultStall is how long a store may send nothing.
	defaultStall = 30 * time.Second
	// tries bounds the repetition of a request that breaks off. Stores have
	// retries of their own; this is for answers that end in the middle.
	tries = 3
)

// Options of New. The zero value and nil are the defaults.
type Options struct {
	// Size is the number of bytes that the folder may hold; 0: DefaultSize;
	// negative: nothing is kept, and whole files are refused.
	Size int64
	// MinFree is the number of bytes that stay free on the disk; 0: a
	// twentieth of it, at most 1 GiB; negative: none.
	MinFree int64
	// Memory bounds the blocks held in memory, in bytes, and those under way,
	// too; 0: 64 MiB.
	Memory int64
	// BlockSize is for tests; 0: 1 MiB.
	BlockSize int64
	// Stall is how long a store may send nothing before a read fails with
	// ErrStalled; 0: 30 s.
	Stall time.Duration
	// Log gets warnings of a folder that cannot be used; nil: nowhere.
	Log *slog.Logger
}

// Source is what the cache asks of a store.
type Source interface {
	Get(ctx context.Context, key string) (io.ReadCloser, blobstore.Info, error)
	GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	Head(ctx context.Context, key string) (blobstore.Info, error)
}

// Cache is one process's use of a cache folder. Its methods may be called from
// any goroutine.
type Cache struct {
	o    Options
	disk *disk
	log  *slog.Logger

	ctx    context.Context // of all requests: a reader that gives up does not end them
	cancel context.CancelCauseFunc
	group  sync.WaitGroup

	under  *semaphore.Weighted // bytes of blocks under way
	maxRun int64               // blocks of one request
	whole  singleflight.Group  // whole files being made, by space and name
	closed bool                // guarded by mu

	mu       sync.Mutex // guards what follows; nothing else is locked under it
	mem      *simplelru.LRU[blockKey, []byte]
	flights  map[blockKey]*flight
	sums     *simplelru.LRU[string, *sums] // checksums of whole files, by path
	verified map[string]uint64             // path of a whole file -> inode that was found right
	streams  int                           // sequential readers at work, see Reader
}

// New makes a cache in dir, which is made when something is first kept. No I/O
// is done. The caller closes it.
func New(dir string, o *Options) *Cache {
	c := &Cache{flights: map[blockKey]*flight{}, verified: map[string]uint64{}}
	if o != nil {
		c.o = *o
	}
	if c.o.Size == 0 {
		c.o.Size = DefaultSize
	}
	if c.o.BlockSize == 0 {
		c.o.BlockSize = blockSize
	}
	if c.o.Memory == 0 {
		c.o.Memory = defaultMemory
	}
	if c.o.Stall == 0 {
		c.o.Stall = defaultStall
	}
	if c.o.Log == nil {
		c.o.Log = slog.New(slog.DiscardHandler)
	}
	c.log = c.o.Log
	c.disk = &disk{dir: dir, limit: c.o.Size, minFree: c.o.MinFree, log: c.log}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	blocks := int(max(4, c.o.Memory/c.o.BlockSize))
	c.maxRun = min(maxWindow, int64(blocks)/2)
	c.under = semaphore.NewWeighted(int64(blocks) * c.o.BlockSize)
	// Errors of NewLRU are about sizes below 1.
	c.mem, _ = simplelru.NewLRU[blockKey, []byte](blocks, nil)
	c.sums, _ = simplelru.NewLRU[string, *sums](64, nil)
	return c
}

// Dir is the cache folder.
func (c *Cache) Dir() string { return c.disk.dir }

// Close ends what is under way and waits for it, except for a store that does
// not even let itself be interrupted. Readers get ErrClosed from then on.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel(ErrClosed)
	done := make(chan struct{})
	go func() { c.group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(closeLimit):
		c.log.Warn("a store does not end a request")
	}
	return nil
}

const closeLimit = 5 * time.Second

// start runs f as one of the goroutines that Close waits for; false when the
// cache is closed.
func (c *Cache) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startLocked(f)
}

func (c *Cache) startLocked(f func()) bool {
	if c.closed {
		return false
	}
	c.group.Go(f)
	return true
}
