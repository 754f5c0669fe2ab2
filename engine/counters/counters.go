package counters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// ErrExhausted: there is no id left that DuckLake, whose ids are signed 64-bit
// integers, could hold. A counter is never wrapped: that would reuse ids.
var ErrExhausted = errors.New("counters: id space exhausted")

// MaxNext is the greatest value of a counter: DuckLake stores the counters
// themselves as BIGINT too.
const MaxNext = math.MaxInt64

// Domain is one of the three global counters.
type Domain uint8

const (
	SnapshotID Domain = iota // one for each committed write
	CatalogID                // schemas, tables, views, macros, partition and sort specs
	FileID                   // data files, delete files and name mappings
	domains    = iota
)

// Key is the counter's key in the store.
func (d Domain) Key() []byte {
	switch d {
	case SnapshotID:
		return keys.CounterSnapshot()
	case CatalogID:
		return keys.CounterCatalog()
	}
	return keys.CounterFile()
}

func (d Domain) String() string {
	return [...]string{"next_snapshot_id", "next_catalog_id", "next_file_id"}[d]
}

// Domains are the three, in the order of their keys.
func Domains() []Domain { return []Domain{SnapshotID, CatalogID, FileID} }

// Read reads one counter. Absent is 0, and found tells it apart.
func Read(ctx context.Context, g kv.Getter, key []byte) (next uint64, found bool, err error) {
	raw, err := g.Get(ctx, key)
	if err != nil {
		return 0, false, fmt.Errorf("read counter % x: %w", key, err)
	}
	if raw == nil {
		return 0, false, nil
	}
	next, err = keys.OpenU64(keys.TagCounter, raw)
	if err != nil {
		return 0, true, fmt.Errorf("read counter % x: %w", key, err)
	}
	return next, true, nil
}

// Cache keeps the three global counters of an open catalog.
type Cache struct {
	mu    sync.Mutex // guards what follows
	next  [domains]uint64
	raw   [domains][]byte // as they stand in the store; nil: absent
	dirty bool
}

// Load reads the counters. g may be a View or a Store.
func Load(ctx context.Context, g kv.Getter) (*Cache, error) {
	c := &Cache{}
	return c, c.reload(ctx, g)
}

func (c *Cache) reload(ctx context.Context, g kv.Getter) error {
	for _, d := range Domains() {
		raw, err := g.Get(ctx, d.Key())
		if err != nil {
			return fmt.Errorf("read counter %v: %w", d, err)
		}
		c.raw[d], c.next[d] = raw, 0
		if raw == nil {
			continue
		}
		if c.next[d], err = keys.OpenU64(keys.TagCounter, raw); err != nil {
			return fmt.Errorf("read counter %v: %w", d, err)
		}
	}
	c.dirty = false
	return nil
}

// Next is the next id the domain will give. g is read when the outcome of the
// last commit is unknown: the cache may then be behind the store.
func (c *Cache) Next(ctx context.Context, g kv.Getter, d Domain) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirty {
		if err := c.reload(ctx, g); err != nil {
			return 0, err
		}
	}
	return c.next[d], nil
}

// Forget makes the next use read the store again: somebody else has set its
// counters.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = true
}

// Begin takes a private copy of the counters for one commit. g is read for the
// counters when the outcome of the last commit is unknown, and for column
// counters. There is one Txn at a time; it is not for several goroutines.
func (c *Cache) Begin(ctx context.Context, g kv.Getter) (*Txn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirty {
		if err := c.reload(ctx, g); err != nil {
			return nil, err
		}
	}
	return &Txn{cache: c, get: g, next: c.next, base: c.next, raw: c.raw, columns: map[uint64]*column{}}, nil
}

// Txn is the counters of one commit.
type Txn struct {
	cache   *Cache
	get     kv.Getter
	next    [domains]uint64
	base    [domains]uint64
	raw     [domains][]byte
	columns map[uint64]*column
}

type column struct {
	next, base uint64
	raw        []byte
}

// Peek is the next id, not taken.
func (t *Txn) Peek(d Domain) uint64 { return t.next[d] }

// Alloc takes the next id.
func (t *Txn) Alloc(d Domain) (uint64, error) { return alloc(&t.next[d], d.String()) }

// EnsureAtLeast raises the counter above an id that came from elsewhere.
func (t *Txn) EnsureAtLeast(d Domain, id uint64) error { return above(&t.next[d], id, d.String()) }

// EnsureNext raises the counter to a next that came from elsewhere. It never lowers it.
func (t *Txn) EnsureNext(d Domain, next uint64) error { return raise(&t.next[d], next, d.String()) }

// AllocColumn takes the next column id of a table.
func (t *Txn) AllocColumn(ctx context.Context, table uint64) (uint64, error) {
	c, err := t.column(ctx, table)
	if err != nil {
		return 0, err
	}
	return alloc(&c.next, columnName(table))
}

// EnsureColumnAtLeast raises the table's column counter above an id that came
// from elsewhere.
func (t *Txn) EnsureColumnAtLeast(ctx context.Context, table, id uint64) error {
	c, err := t.column(ctx, table)
	if err != nil {
		return err
	}
	return above(&c.next, id, columnName(table))
}

func (t *Txn) column(ctx context.Context, table uint64) (*column, error) {
	if c, ok := t.columns[table]; ok {
		return c, nil
	}
	if c := kept(t.cache, table); c != nil {
		t.columns[table] = c
		return c, nil
	}
	raw, err := t.get.Get(ctx, keys.CounterColumn(table))
	if err != nil {
		return nil, fmt.Errorf("read counter %s: %w", columnName(table), err)
	}
	c := &column{raw: raw}
	if raw != nil {
		if c.base, err = keys.OpenU64(keys.TagCounter, raw); err != nil {
			return nil, fmt.Errorf("read counter %s: %w", columnName(table), err)
		}
		c.next = c.base
	}
	t.columns[table] = c
	keep(t.cache, table, c)
	return c, nil
}

func columnName(table uint64) string { return fmt.Sprintf("next_column_id of table %d", table) }

// Stage writes the counters that moved into b, and expects all that were read
// to be as they were: a commit that would overwrite somebody else's ids is a
// conflict instead.
func (t *Txn) Stage(b *kv.Batch) {
	for _, d := range Domains() {
		if !mutant.Is(mutant.BaseUnexpected) {
			b.Expect(d.Key(), t.raw[d])
		}
		if t.next[d] != t.base[d] && !mutant.Is(mutant.CounterUnwritten) {
			b.Put(d.Key(), keys.SealU64(keys.TagCounter, t.next[d]))
		}
	}
	for _, table := range slices.Sorted(maps.Keys(t.columns)) {
		c, key := t.columns[table], keys.CounterColumn(table)
		b.Expect(key, c.raw)
		if c.next != c.base && !mutant.Is(mutant.ColumnUnwritten) {
			b.Put(key, keys.SealU64(keys.TagCounter, c.next))
		}
	}
}

// Done says what became of the commit that holds this Txn. On nil the copy
// becomes the cache. On any error the cache is read again before its next
// use: that is right whether the commit happened or not.
func (t *Txn) Done(err error) {
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()
	if err != nil {
		t.cache.dirty = !mutant.Is(mutant.UnknownTrusted)
		return
	}
	for _, d := range Domains() {
		if t.next[d] != t.base[d] {
			t.cache.next[d] = t.next[d]
			t.cache.raw[d] = keys.SealU64(keys.TagCounter, t.next[d])
		}
	}
}

func alloc(next *uint64, name string) (uint64, error) {
	if *next >= MaxNext && !mutant.Is(mutant.OverflowUnchecked) {
		return 0, fmt.Errorf("%w: %s is %d", ErrExhausted, name, *next)
	}
	id := *next
	*next++
	return id, nil
}

func above(next *uint64, id uint64, name string) error {
	if id >= MaxNext {
		return fmt.Errorf("%w: %s would have to be above %d", ErrExhausted, name, id)
	}
	*next = max(*next, id+1)
	return nil
}

func raise(next *uint64, to uint64, name string) error {
	if to > MaxNext {
		return fmt.Errorf("%w: %s would have to be %d", ErrExhausted, name, to)
	}
	if mutant.Is(mutant.CounterLowered) {
		*next = to
	}
	*next = max(*next, to)
	return nil
}
