//go:build slatedb

package slatekv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// The keys this package keeps for itself.
var (
	epochKey = keys.System(keys.SuffixWriterEpoch)
	nonceKey = keys.System(keys.SuffixWriterNonce)
	ownerKey = keys.System(keys.SuffixOwner)
)

// Writer is a store open for writing.
type Writer struct {
	at *target

	// mu is held for reading by every call on db, and by Close to end it: the
	// handle must not be freed under a call.
	mu sync.RWMutex
	db *database

	// end is why nothing more can be done, nil while all is well. Guarded by
	// nothing: it only ever goes from nil to something, or to closed.
	end atomic.Pointer[error]
}

var _ kv.Writer = (*Writer)(nil)

// OpenWriter opens the store at u, the URL behind "slatedb:", makes it when it
// is missing, and fences every handle opened before.
func OpenWriter(ctx context.Context, u *url.URL, opts *Options) (*Writer, error) {
	if opts == nil {
		opts = &Options{}
	}
	at, err := locate(u, opts)
	if err != nil {
		return nil, err
	}
	w, err := openWriter(ctx, at, opts)
	if err != nil {
		return nil, at.wrap("open catalog store", err)
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log.DebugContext(ctx, "catalog store open for writing", "store", at.name, "epoch", w.db.epoch(), "library", library)
	return w, nil
}

func openWriter(ctx context.Context, at *target, opts *Options) (*Writer, error) {
	more := map[string]any{}
	if at.opts["dir"] == nil { // a folder's creations are the kernel's
		more["probe"] = uuid.NewString()
	}
	if opts.Admit != nil {
		owner, epoch, err := holder(ctx, at)
		if err != nil {
			return nil, err
		}
		if err := opts.Admit(owner); err != nil {
			return nil, err
		}
		more["expected_epoch"] = epoch
	}
	js, err := at.with(more)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, js)
	if err != nil {
		return nil, err
	}
	w := &Writer{at: at, db: db}
	if err := w.record(ctx, opts.Owner); err != nil {
		return nil, errors.Join(err, db.close(false))
	}
	return w, nil
}

// holder reads who is recorded, and the epoch of the store it was read from.
// No store yet is held by nobody, at epoch 0.
func holder(ctx context.Context, at *target) (owner string, epoch uint64, err error) {
	js, err := at.with(nil)
	if err != nil {
		return "", 0, err
	}
	s, err := openSnapshot(ctx, js)
	if errors.Is(err, kv.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	value, err := s.get(ctx, ownerKey)
	epoch = s.epoch()
	return string(value), epoch, errors.Join(err, s.close())
}

// record raises the epoch key and says who opened. The library's own fence is
// up by now; this is what people and other readers of the format see, and the
// commit of it proves that nobody has come between.
func (w *Writer) record(ctx context.Context, owner string) error {
	old, err := w.db.get(ctx, epochKey)
	if err != nil {
		return err
	}
	var epoch uint64
	if old != nil {
		if epoch, err = keys.OpenU64(keys.TagSystem, old); err != nil {
			return fmt.Errorf("%w: writer epoch: %w", kv.ErrCorrupt, err)
		}
	}
	if epoch+1 == 0 {
		return fmt.Errorf("%w: writer epoch is at its end", kv.ErrCorrupt)
	}
	var b kv.Batch
	b.Put(epochKey, keys.SealU64(keys.TagSystem, epoch+1))
	b.Put(nonceKey, []byte(uuid.NewString()))
	b.Put(ownerKey, []byte(owner))
	return w.db.commit(ctx, pack(&b))
}

// Commit applies b. See kv.Writer.
func (w *Writer) Commit(ctx context.Context, b *kv.Batch) error {
	if err := b.Validate(epochKey, nonceKey, ownerKey); err != nil {
		return err
	}
	return w.commit(ctx, b)
}

func (w *Writer) commit(ctx context.Context, b *kv.Batch) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if err := w.usable(); err != nil {
		return err
	}
	err := w.db.commit(ctx, pack(b))
	if errors.Is(err, errBadOption) {
		err = fmt.Errorf("%w: %w", kv.ErrInvalid, err)
	}
	return w.seen("commit", err)
}

// Release clears the recorded owner. The handle can still be used.
func (w *Writer) Release(ctx context.Context) error {
	var b kv.Batch
	b.Put(ownerKey, []byte{})
	return w.commit(ctx, &b)
}

// Get reads one key as of the last commit. See kv.Getter.
func (w *Writer) Get(ctx context.Context, key []byte) ([]byte, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if err := w.usable(); err != nil {
		return nil, err
	}
	if len(key) == 0 {
		return nil, ctx.Err()
	}
	value, err := w.db.get(ctx, key)
	return value, w.seen("get", damaged(err))
}

// View pins the store. See kv.Store.
func (w *Writer) View(ctx context.Context) (kv.View, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if err := w.usable(); err != nil {
		return nil, err
	}
	s, err := w.db.snapshot(ctx)
	if err != nil {
		return nil, w.seen("view", err)
	}
	// Nothing that a writer's view needs is collected: what is gone was lost.
	return &view{at: w.at, s: s, explain: damaged}, nil
}

// seen remembers an error after which the handle must not be used.
func (w *Writer) seen(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrFenced):
		if w.end.Load() == nil {
			err = fmt.Errorf("%w: opened by %s", err, w.fencedBy())
		}
		w.end.CompareAndSwap(nil, &err)
		return *w.end.Load()
	case errors.Is(err, kv.ErrUnknown):
		// What is in the handle's memory may not be in the store: later reads
		// would show it, and later commits build on it.
		dead := fmt.Errorf("%w: after a commit with unknown outcome: %v", kv.ErrClosed, err)
		w.end.CompareAndSwap(nil, &dead)
	}
	return w.at.wrap(doing, err)
}

// fencedBy asks the store who opened it, for the message only.
func (w *Writer) fencedBy() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if owner, _, err := holder(ctx, w.at); err == nil && owner != "" {
		return owner
	}
	return "somebody else"
}

func (w *Writer) usable() error {
	if p := w.end.Load(); p != nil {
		return *p
	}
	return nil
}

// Close releases the handle. Calls under way are waited for. What the library
// says at the end is not an answer about any commit: each had its own.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return nil
	}
	closed := error(kv.ErrClosed)
	before := w.end.Swap(&closed)
	err := w.db.close(before == nil)
	w.db = nil
	if before != nil || errors.Is(err, kv.ErrFenced) || errors.Is(err, kv.ErrClosed) {
		return nil
	}
	return w.at.wrap("close", err)
}

// wrap says what was being done, without any secret in it.
func (t *target) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errBadOption) {
		return usage(fmt.Sprintf("%s %s: %s", doing, t.name, t.redact(err.Error())))
	}
	err = fmt.Errorf("%s %s: %w", doing, t.name, err)
	if clean := t.redact(err.Error()); clean != err.Error() {
		return &redacted{text: clean, err: err}
	}
	return err
}

func (t *target) redact(text string) string {
	for _, s := range t.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// redacted is an error whose own text names a secret.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

// Is and As reach the kinds of the error, and never its text.
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }
func (r *redacted) As(target any) bool   { return errors.As(r.err, target) }
