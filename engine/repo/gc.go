package repo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/mutant"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Garbage collection deletes what no ref reaches and is older than the grace
// period by the store's clock. What keeps it from deleting what somebody needs:
//
//  1. Age. Whatever a writer has just put, or put again, is young. A version's
//     folder of which one file is young is kept whole, with all it names.
//  2. Doubt. A list, ref, version or file list that cannot be read ends the
//     collection before anything was deleted.
//  3. Order. The reverse of writing: version.json, the other JSON, catalogs,
//     data; each for all versions before the next begins. Stopped anywhere, no
//     version.json names what is gone, and the next collection goes on.
//  4. A last look. Refs are read again when the plan is made and once more when
//     the version.json are gone: those of a version that got a name meanwhile
//     are put back, also by the next collection when this one dies before it can
//     (gcmark.go). Each object's age is asked for just before it is deleted;
//     one that has become young ends the plan, and a new one is made.
//  5. The mark, gcmark.go. Between the last look and the deletion a push that
//     slept can still make the object young and name it. Such a push waits for
//     the end of a collection, then looks whether all it needs is there.

// GCOptions of GC. The zero value works.
type GCOptions struct {
	// DryRun deletes nothing. It still writes and removes a scratch object, to
	// ask the store's clock.
	DryRun bool
	// Grace is the age below which nothing is deleted; nil: the repository's.
	Grace *time.Duration
	// Named yields the paths below the root that the catalog of a version names,
	// for one without a files.json that says it all. They need not be clean. Nil:
	// such a version ends the collection.
	Named func(ctx context.Context, id ID, each func(path string)) error
	// Progress is told how many of how many objects are deleted; calls do not
	// overlap. Total grows when there was reason to look again.
	Progress func(done, total int64)
}

// GCResult says what GC deleted or, on a dry run, would delete.
type GCResult struct {
	Now      time.Time // by the store's clock
	Cutoff   time.Time // what is not older was kept
	Deleted  []blobstore.Info
	Versions int // folders of versions among them
	Kept     int // objects below versions/ and the data folder that were kept
	Young    int // of Kept: no ref reaches them, but they are not old enough
}

// gcPlans bounds how often a plan is made anew because objects became young:
// each time means that somebody else got on.
const gcPlans = 16

// errRenewed: an object that was to be deleted is young now.
var errRenewed = errors.New("repo: object was renewed")

// GC collects garbage. On error nothing was deleted that any ref reaches; run
// it again. The result is there beside the error and says how far it got.
func (r *Repository) GC(ctx context.Context, o GCOptions) (*GCResult, error) {
	res := &GCResult{}
	if err := r.gc(ctx, o, res); err != nil {
		return res, fmt.Errorf("collect garbage in %s: %w", r.store.URL(), err)
	}
	return res, nil
}

func (r *Repository) gc(ctx context.Context, o GCOptions, res *GCResult) (err error) {
	// Nothing that an earlier look has left in memory.
	fresh, err := OpenUnchecked(ctx, r.store)
	if err != nil {
		return err
	}
	g := &collector{r: fresh, o: o, res: res}
	if o.DryRun {
		res.Now, err = fresh.storeTime(ctx)
	} else if g.mark, err = fresh.beginMark(ctx); err == nil {
		defer g.mark.end(ctx)
		res.Now = g.mark.begun
	}
	if err != nil {
		return err
	}
	grace := fresh.Grace()
	if o.Grace != nil {
		grace = *o.Grace
	}
	if grace < 0 {
		return outcome.New(outcome.Usage, fmt.Sprintf("a grace period cannot be negative: %v", grace), "give a length of time such as 168h")
	}
	res.Cutoff = res.Now.Add(-grace)
	if mutant.Is(mutant.GCAge) {
		res.Cutoff = res.Now.Add(time.Hour)
	}
	for range gcPlans {
		p, err := g.plan(ctx)
		if err != nil {
			return err
		}
		res.Kept, res.Young = p.kept, p.young
		if o.DryRun {
			for _, phase := range p.phases() {
				res.Deleted = append(res.Deleted, phase...)
			}
			res.Versions = len(p.versions)
			return nil
		}
		if err = g.sweep(ctx, p); !errors.Is(err, errRenewed) {
			return err
		}
	}
	return nil // what became young again and again is in use
}

type collector struct {
	r    *Repository
	o    GCOptions
	res  *GCResult
	mark *gcMark // nil on a dry run

	mu    sync.Mutex // guards res and total while objects are deleted
	total int64
}

// old tells whether an object's age allows it to be deleted.
func (g *collector) old(info blobstore.Info) bool { return info.ModTime.Before(g.res.Cutoff) }

// sweep deletes what is planned, a kind of object after the other.
func (g *collector) sweep(ctx context.Context, p *gcPlan) error {
	g.total = int64(len(g.res.Deleted) + p.objects())
	phases := p.phases()
	if mutant.Is(mutant.GCOrder) {
		phases[0], phases[3] = phases[3], phases[0]
	}
	for i, phase := range phases {
		if i == 0 {
			if err := g.unname(ctx, p, phase); err != nil {
				return err
			}
			continue
		}
		if err := g.each(ctx, phase, func(ctx context.Context, info blobstore.Info) error {
			now, err := g.r.store.Head(ctx, info.Key)
			return g.delete(ctx, now, err)
		}); err != nil {
			return err
		}
	}
	g.res.Versions += len(p.versions)
	return nil
}

// gcAtOnce is how many objects are looked at and deleted at a time.
const gcAtOnce = 16

// each deletes objects side by side and waits for all that were begun.
func (g *collector) each(ctx context.Context, list []blobstore.Info, one func(context.Context, blobstore.Info) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(gcAtOnce)
	for _, info := range list {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error { return one(inner, info) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// still says whether an object that is to be deleted, as it was just looked
// for, is there. One that has become young ends the plan.
func (g *collector) still(now blobstore.Info, err error) (there bool, _ error) {
	switch {
	case notExist(err):
		return false, nil // deleted by a collection that was stopped, or runs beside us
	case err != nil:
		return false, err
	case !g.old(now):
		return false, fmt.Errorf("%w: %s", errRenewed, now.Key)
	}
	return true, nil
}

// delete removes an object as it was just seen, unless it has become young.
func (g *collector) delete(ctx context.Context, now blobstore.Info, err error) error {
	if there, err := g.still(now, err); !there {
		return err
	}
	if err := g.mark.beat(ctx); err != nil {
		return err
	}
	if err := g.r.store.Delete(ctx, now.Key); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.res.Deleted = append(g.res.Deleted, now)
	if g.o.Progress != nil {
		g.o.Progress(int64(len(g.res.Deleted)), g.total)
	}
	return nil
}

const (
	// unnameAtOnce is of how many versions the version.json is held.
	unnameAtOnce = 64
	// heldBytes is how many bytes of them the mark takes. They are a kilobyte
	// each; one that alone is larger is held in memory only.
	heldBytes = 2 << 20
)

// unname deletes the version.json of planned versions, newest first. From then
// on nobody can give them a name. One that got a name before that is put back:
// its other files are all still there.
func (g *collector) unname(ctx context.Context, p *gcPlan, list []blobstore.Info) error {
	for len(list) > 0 {
		n := min(unnameAtOnce, len(list))
		held, err := g.hold(ctx, list[:n])
		if err != nil {
			return err
		}
		err = g.each(ctx, list[:n], func(ctx context.Context, info blobstore.Info) error {
			if held[info.Key] == nil {
				return nil // gone, or young
			}
			now, err := g.r.store.Head(ctx, info.Key)
			return g.delete(ctx, now, err)
		})
		if err2 := g.named(ctx, p, held); err2 != nil {
			return err2
		}
		if err != nil {
			return err
		}
		list = list[n:]
	}
	// Before any other file of their folders goes.
	return g.mark.release(ctx, p.versions)
}

// hold reads the version.json of versions that are to be deleted, and writes
// them into the mark. What has become young ends the plan.
func (g *collector) hold(ctx context.Context, list []blobstore.Info) (map[string][]byte, error) {
	var mu sync.Mutex // guards held
	held := map[string][]byte{}
	err := g.each(ctx, list, func(ctx context.Context, info blobstore.Info) error {
		data, now, err := readSmall(ctx, g.r.store, info.Key, maxVersion)
		if there, err := g.still(now, err); !there {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		held[info.Key] = data
		return nil
	})
	if err != nil {
		return nil, err
	}
	written, bytes := map[ID][]byte{}, 0
	for _, info := range list {
		if data := held[info.Key]; data != nil && bytes+len(data) <= heldBytes && !mutant.Is(mutant.GCUnheld) {
			written[versionOf(info.Key)] = data
			bytes += len(data)
		}
	}
	return held, g.mark.hold(ctx, written)
}

// versionOf is the version whose folder holds key.
func versionOf(key string) ID { return ID(path.Base(path.Dir(key))) }

// restore puts back what a collection that was killed had deleted while a ref
// got to it.
func (g *collector) restore(ctx context.Context, reach *reach) error {
	if g.mark == nil {
		return nil
	}
	for id, data := range g.mark.found {
		if reach.seen[id] {
			if err := g.putBack(ctx, VersionKey(id, VersionFile), data); err != nil {
				return err
			}
		}
	}
	g.mark.restored()
	return nil
}

// named looks whether refs lead to what was just deleted, and puts that back.
func (g *collector) named(ctx context.Context, p *gcPlan, held map[string][]byte) error {
	if len(held) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // also when this is the last that is done
	roots, err := g.r.roots(ctx)
	again := false
	for err == nil {
		if err = p.reach.walk(ctx, roots, true); err != nil {
			break
		}
		var back []string
		for key := range held {
			id := versionOf(key)
			if p.reach.seen[id] || p.reach.missing[id] {
				back = append(back, key)
			}
		}
		if len(back) == 0 {
			break
		}
		again = true
		for _, key := range back {
			if err := g.putBack(ctx, key, held[key]); err != nil {
				return err
			}
			delete(held, key)
		}
	}
	if err == nil {
		g.mark.settled()
		if again {
			return fmt.Errorf("%w: a ref leads to it", errRenewed)
		}
		return nil
	}
	// It cannot be known: better a leftover more than a version less.
	for key, data := range held {
		if err := g.putBack(ctx, key, data); err != nil {
			return err
		}
	}
	g.mark.settled()
	return err
}

func (g *collector) putBack(ctx context.Context, key string, data []byte) error {
	if _, err := blobstore.PutIfAbsentConfirmed(ctx, g.r.store, key, blobstore.BytesBody(data)); err != nil {
		return fmt.Errorf("put %s back: %w", key, err)
	}
	g.res.Deleted = slices.DeleteFunc(g.res.Deleted, func(i blobstore.Info) bool { return i.Key == key })
	return nil
}
