package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// gcMarkFile says that a garbage collection is running: {"run": "<uuid>",
// "beat": n}. No store deletes on the condition that an object is still old, so
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
const gcMarkFile = "tarn-gc.json"

const (
	markLife = 10 * time.Minute
	markBeat = 30 * time.Second
	// endTime bounds the removal of the mark when the caller was interrupted.
	endTime = 5 * time.Second
)

type markText struct {
	Run  string `json:"run"`
	Beat int    `json:"beat"`
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
}

func (r *Repository) beginMark(ctx context.Context) (*gcMark, error) {
	m := &gcMark{store: r.store, run: uuid.NewString()}
	var before time.Time
	switch info, err := r.store.Head(ctx, gcMarkFile); {
	case err == nil:
		m.version, before = info.Version, info.ModTime
	case !notExist(err):
		return nil, err
	}
	if err := m.swap(ctx); err != nil {
		return nil, err
	}
	info, err := r.store.Head(ctx, gcMarkFile)
	if err != nil {
		return nil, fmt.Errorf("ask the store's clock: %w", err)
	}
	m.begun = info.ModTime
	m.leave = !before.IsZero() && m.begun.Sub(before) < markLife
	return m, nil
}

func (m *gcMark) swap(ctx context.Context) error {
	m.beats++
	m.last = readClock() // before: the mark is at least as young
	data, err := json.Marshal(markText{m.run, m.beats})
	if err != nil {
		return err
	}
	v, err := blobstore.SwapConfirmed(ctx, m.store, gcMarkFile, m.version, append(data, '\n'))
	if errors.Is(err, blobstore.ErrConflict) {
		return outcome.Wrap(outcome.Busy, "another garbage collection has begun", err, "let it end, then run it again if need be")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", gcMarkFile, err)
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

// end removes the mark. One that stays is only in the way of pushes that slept,
// and not for long: no reason to call the whole work failed.
func (m *gcMark) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leave || m.swap(ctx) != nil { // another's now
		return
	}
	_ = m.store.Delete(ctx, gcMarkFile)
}

// Collecting tells whether a garbage collection may be deleting; now is a time
// of the store's clock, such as that of an object that was just put.
func (r *Repository) Collecting(ctx context.Context, now time.Time) (bool, error) {
	info, err := r.store.Head(ctx, gcMarkFile)
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
