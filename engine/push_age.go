package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// A push beside a garbage collection. What a version names that no ref reaches
// yet is safe while it is young. So before the ref moves everything that is
// older than half the grace period is put again; when there was such a thing, a
// collection that runs may already have decided to delete it: its end is waited
// for, then all is looked for once more, and what is gone is uploaded again from
// what is still here. A push that slept on the way begins this again; one that
// slept over the moment when the ref moved does it once more afterwards.

const (
	// ageRounds bounds how often is looked again.
	ageRounds = 5
	// collectionWait is how long a push waits for a collection to end.
	collectionWait = 2 * time.Minute
	// collectionPoll is how soon it looks again, at first and at most.
	collectionPoll, collectionPollMost = 20 * time.Millisecond, time.Second
)

// aged tells whether a version was committed, by this machine's clock, so long
// ago that parts of it may have been deleted or be about to be.
func (w *Work) aged(v *repo.Version) bool {
	return w.e.now().Sub(v.CreatedAt) > w.e.repo.Grace()/2
}

// keepYoung brings everything of an uploaded version that the tip does not name
// to an age at which no collection takes it. again uploads what is missing.
func (w *Work) keepYoung(ctx context.Context, id, tip repo.ID, o PushOptions, again func() error) error {
	grace := w.e.repo.Grace()
	meta, err := w.outboxVersion(id)
	if err != nil {
		return err
	}
	keys, here, err := w.unnamed(ctx, meta, tip)
	if err != nil {
		return err
	}
	risky := w.aged(meta)
	if !risky && here {
		return nil // all of it has just been put
	}
	if there, err := w.e.repo.Present(ctx, []string{repo.VersionKey(id, repo.VersionFile)}); err != nil {
		return err
	} else {
		for _, info := range there { // its time is then the present by the store's clock
			if err := w.e.repo.Renew(ctx, info); err != nil && !errors.Is(err, blobstore.ErrNotExist) {
				return err
			}
		}
	}
	renewed := map[string]bool{}
	clear := false // no collection was seen after everything was young
	for range ageRounds {
		there, err := w.e.repo.Present(ctx, keys)
		if err != nil {
			return err
		}
		now := w.e.now()
		if info, ok := there[repo.VersionKey(id, repo.VersionFile)]; ok {
			now = info.ModTime
		}
		lost, old := "", false
		for _, key := range keys {
			info, ok := there[key]
			switch {
			case !ok:
				lost = key
			case now.Sub(info.ModTime) > grace/2 && !renewed[key]:
				old, renewed[key] = true, true
				if err := w.e.repo.Renew(ctx, info); err != nil && !errors.Is(err, blobstore.ErrNotExist) {
					return err
				}
			}
		}
		risky = risky || old || lost != ""
		switch {
		case !risky, clear && lost == "" && !old:
			return nil
		case lost != "" && !w.hasLocal(id, lost):
			return w.lostData(lost, 1)
		case lost != "":
			if err := again(); err != nil {
				return err
			}
		}
		if err := w.awaitCollection(ctx, id, o); err != nil {
			return err
		}
		clear = true
	}
	return outcome.New(outcome.Busy, "objects of version "+id.Short()+" are deleted as soon as they are put", "see that no garbage collection with a shorter grace period runs, then push again")
}

// unnamed are the keys of a version that the tip does not name; here: all its
// data files among them are on this machine.
func (w *Work) unnamed(ctx context.Context, v *repo.Version, tip repo.ID) (keys []string, here bool, err error) {
	files, err := w.outboxFiles(v.ID)
	if err != nil {
		return nil, false, err
	}
	tree, err := w.e.version(ctx, tip)
	if err != nil {
		return nil, false, err
	}
	known, err := tree.loaded(ctx)
	if err != nil {
		return nil, false, err
	}
	here = true
	for f := range files.All() {
		if known.files.Has(f.Path) {
			continue
		}
		keys = append(keys, f.Path)
		_, err := os.Lstat(w.localData(f.Path))
		here = here && err == nil
	}
	for name := range v.SHA256 {
		keys = append(keys, repo.VersionKey(v.ID, name))
	}
	return append(keys, repo.VersionKey(v.ID, repo.VersionFile)), here, nil
}

// hasLocal tells whether an object of a version could be uploaded from here.
func (w *Work) hasLocal(id repo.ID, key string) bool {
	path := filepath.Join(w.generation().OutboxDir(), string(id), filepath.FromSlash(trimVersion(id, key)))
	if trimVersion(id, key) == key {
		path = w.localData(key)
	}
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func trimVersion(id repo.ID, key string) string {
	if prefix := repo.VersionKey(id, ""); len(key) > len(prefix) && key[:len(prefix)] == prefix {
		return key[len(prefix):]
	}
	return key
}

// outboxVersion reads version.json of a version in the outbox.
func (w *Work) outboxVersion(id repo.ID) (*repo.Version, error) {
	b, err := os.ReadFile(filepath.Join(w.generation().OutboxDir(), string(id), repo.VersionFile))
	if err != nil {
		return nil, err
	}
	return repo.DecodeVersion(b, id)
}

// lostData is the refusal of a push whose data files are gone.
func (w *Work) lostData(path string, n int) error {
	return outcome.New(outcome.Moved, fmt.Sprintf("data file %s is missing from the repository (%s missing)", path, plural(n, "file")),
		"copy what you need out of the working folder, run tarn reset --last (tarn reset --undo brings it back), and do the work again")
}

// awaitCollection returns when no garbage collection runs.
func (w *Work) awaitCollection(ctx context.Context, id repo.ID, o PushOptions) error {
	key := repo.VersionKey(id, repo.VersionFile)
	waited, poll := time.Duration(0), collectionPoll
	for {
		there, err := w.e.repo.Present(ctx, []string{key})
		if err != nil {
			return err
		}
		now := there[key].ModTime
		if waited > 0 {
			now = now.Add(waited)
		}
		running, err := w.e.repo.Collecting(ctx, now)
		if err != nil || !running {
			return err
		}
		if waited >= collectionWait {
			return outcome.New(outcome.Busy, "a garbage collection is running, and this version waited so long that it may be deleting parts of it",
				"push again when it has ended; one that was killed is forgotten after 10 minutes")
		}
		if o.Waiting != nil {
			o.Waiting()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
		waited, poll = waited+poll, min(2*poll, collectionPollMost)
	}
}

// errSlept: in each round half a grace period went by.
var errSlept = outcome.New(outcome.Busy, "the push was interrupted for longer than half the grace period, again and again", "push again; the repository's grace_period may be too short for it")

// slept tells whether what was put when the watch was started may be old now.
func (w *Work) slept(s stopwatch) bool { return s.elapsed() > w.e.repo.Grace()/2 }

// stopwatch measures how long something took, time that the machine slept
// included.
type stopwatch struct {
	e    *Engine
	wall time.Time
	boot int64
}

func (e *Engine) startWatch() stopwatch { return stopwatch{e, e.now(), bootTime()} }

func (s stopwatch) elapsed() time.Duration {
	return max(s.e.now().Sub(s.wall), time.Duration(bootTime()-s.boot))
}

// bootTime counts on while the machine is suspended, unlike Go's clock.
func bootTime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
