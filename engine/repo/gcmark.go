package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// GCMarkFile says that a garbage collection is running: {"run": "<uuid>",
// "beat": n, "held": {"<version ID>": "<its version.json in base64>"}}. No store deletes on the condition that an object is still old, so
// that a deletion decided on before a push renewed the object may land after it.
// Hence this protocol, of which only a push that slept must know:
//
//	collection: write the mark; look and delete, swapping the mark every
//	            markBeat, and never deleting once that is overdue; remove it
//	push:       renew what is old; wait while there is a mark younger than
//	            markLife by the store's clock; then look that all is there
//
// A collection that began after the push had renewed sees young objects; one
// that began before has a mark. One that was killed deletes no more: its mark
// is forgotten after markLife. A second collection takes the mark over, so that
// it need not wait, and the first stops at its next beat; then the mark is left
// to grow old, because a deletion of the first may still be under way.
//
// held are the version.json that are being deleted. A ref may get to one of them
// between the last look at the refs and its deletion; then the collection puts
// it back. One that is killed before that cannot: so they are written down
// first, and taken off the list before any other file of their folders goes.
// Readers find such a version in the mark (ReadVersion), and the next collection
// puts back what refs lead to. No ref is moved on account of the mark (SetRef
// asks for the object): what no ref leads to by then stays deleted.
const GCMarkFile = "tarn-gc.json"

const (
	markLife = 10 * time.Minute
	markBeat = 30 * time.Second
	// endTime bounds the removal of the mark when the caller was interrupted.
	endTime = 5 * time.Second
)

// maxMark bounds the mark in bytes; heldBytes keeps what is written below half of it.
const maxMark = 8 << 20

type markText struct {
	Run  string        `json:"run"`
	Beat int           `json:"beat"`
	Held map[ID][]byte `json:"held,omitempty"`
}

type gcMark struct {
	store blobstore.Store
	run   string
	begun time.Time // by the store's clock
	leave bool      // another's may still be under way

	mu      sync.Mutex // guards what follows; held during a swap, so that all wait for one beat
	version blobstore.Version
	beats   int
	last    clock
	held    map[ID][]byte // by this collection
	found   map[ID][]byte // by one that was killed, or is still there
}

func (r *Repository) beginMark(ctx context.Context) (*gcMark, error) {
	m := &gcMark{store: r.store, run: uuid.NewString()}
	var before time.Time
	switch text, info, err := readMark(ctx, r.store); {
	case err == nil:
		m.version, before, m.found = info.Version, info.ModTime, text.Held
	case !notExist(err):
		return nil, err
	}
	if err := m.swap(ctx); err != nil {
		return nil, err
	}
	info, err := r.store.Head(ctx, GCMarkFile)
	if err != nil {
		return nil, fmt.Errorf("ask the store's clock: %w", err)
	}
	m.begun = info.ModTime
	m.leave = !before.IsZero() && m.begun.Sub(before) < markLife
	return m, nil
}

// readMark reads the mark. One that is no mark of ours holds nothing, and is
// taken over like any other.
func readMark(ctx context.Context, store blobstore.Store) (markText, blobstore.Info, error) {
	var text markText
	data, info, err := readSmall(ctx, store, GCMarkFile, maxMark)
	if err == nil && json.Unmarshal(data, &text) != nil {
		text = markText{}
	}
	if errors.Is(err, ErrDamaged) {
		err = nil // too large
	}
	return text, info, err
}

// swap writes the mark; the caller holds mu, or is alone.
func (m *gcMark) swap(ctx context.Context) error {
	m.beats++
	m.last = readClock() // before: the mark is at least as young
	held := m.held
	if len(m.found) > 0 {
		held = maps.Clone(m.found)
		maps.Copy(held, m.held)
	}
	data, err := json.Marshal(markText{m.run, m.beats, held})
	if err != nil {
		return err
	}
	v, err := blobstore.SwapConfirmed(ctx, m.store, GCMarkFile, m.version, append(data, '\n'))
	if errors.Is(err, blobstore.ErrConflict) {
		return outcome.Wrap(outcome.Busy, "another garbage collection has begun", err, "let it end, then run it again if need be")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", GCMarkFile, err)
	}
	m.version = v
	return nil
}

// beat is called before each deletion.
func (m *gcMark) beat(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if readClock().since(m.last) < markBeat {
		return nil
	}
	return m.swap(ctx)
}

// hold writes down which version.json are about to be deleted, in place of the
// last ones. On error none may be.
func (m *gcMark) hold(ctx context.Context, held map[ID][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(held) == 0 && len(m.held) == 0 {
		return nil
	}
	m.held = held
	err := m.swap(ctx)
	if err != nil {
		m.held = nil
	}
	return err
}

// release takes off what is held, and of what was found the versions of which
// everything is about to be deleted.
func (m *gcMark) release(ctx context.Context, gone []ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.held) + len(m.found)
	m.held = nil
	m.found = maps.Clone(m.found)
	for _, id := range gone {
		delete(m.found, id)
	}
	if len(m.found) == before {
		return nil
	}
	return m.swap(ctx)
}

// restored says that what an earlier collection held is where it belongs. When
// that one may still be deleting it is written down to the end, and longer.
func (m *gcMark) restored() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.leave {
		m.found = nil
	}
}

// settled says that what was held is back or was not asked for.
func (m *gcMark) settled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = nil
}

// end removes the mark, unless it holds what could not be put back. One that stays is only in the way of pushes that slept,
// and not for long: no reason to call the whole work failed.
func (m *gcMark) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leave || len(m.held) > 0 || len(m.found) > 0 || m.swap(ctx) != nil { // the last: another's now
		return
	}
	_ = m.store.Delete(ctx, GCMarkFile)
}

// Collecting tells whether a garbage collection may be deleting; now is a time
// of the store's clock, such as that of an object that was just put.
func (r *Repository) Collecting(ctx context.Context, now time.Time) (bool, error) {
	info, err := r.store.Head(ctx, GCMarkFile)
	if notExist(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a garbage collection: %w", err)
	}
	return now.Sub(info.ModTime) < markLife, nil
}

// storeTime is the present by the store's clock, never later: written and read
// back, because the clock of this machine may be anything.
func (r *Repository) storeTime(ctx context.Context) (time.Time, error) {
	key := blobstore.ProbePrefix + "clock-" + uuid.NewString()
	_, err := r.store.PutIfMatch(ctx, key, "", []byte(key+"\n"))
	if err == nil {
		var info blobstore.Info
		if info, err = r.store.Head(ctx, key); err == nil {
			return info.ModTime, r.store.Delete(ctx, key)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_ = r.store.Delete(ctx, key) // it may be there
	return time.Time{}, fmt.Errorf("ask the store's clock: %w", err)
}

// clock measures how long something took on this machine, time that it slept
// included, which Go's monotonic clock leaves out.
type clock struct {
	wall time.Time
	boot time.Duration
}

func readClock() clock {
	c := clock{wall: time.Now()}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		c.boot = time.Duration(ts.Nano())
	}
	return c
}

func (c clock) since(old clock) time.Duration {
	return max(c.wall.Sub(old.wall), c.wall.Round(0).Sub(old.wall.Round(0)), c.boot-old.boot)
}
