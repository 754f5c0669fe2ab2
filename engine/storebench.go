package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// StoreBenchOptions of BenchStore.
type StoreBenchOptions struct {
	Size  int64 // bytes of the large object; 0: 64 MiB
	Calls int   // calls whose time is told one by one; 0: 20
	Small int   // small objects that are written and read many at a time; 0: 200
}

const (
	benchSize  = 64 << 20
	benchCalls = 20
	benchSmall = 200
	benchWidth = 16      // small objects at a time, as a push has them
	benchBytes = 4 << 10 // of a small object
)

// StoreFigure is one measure of a store.
type StoreFigure struct {
	Name    string  `json:"name"`
	Median  float64 `json:"median_ms,omitempty"` // of calls one after the other
	Slowest float64 `json:"slowest_ms,omitempty"`
	Rate    float64 `json:"per_second,omitempty"` // objects, many at a time
	Speed   float64 `json:"mb_per_second,omitempty"`
	Means   string  `json:"means"`
}

// StoreBench says how fast a store answers from here.
type StoreBench struct {
	URL     string        `json:"url"`
	Figures []StoreFigure `json:"figures"`
}

// Text is a line for each figure.
func (r *StoreBench) Text() string {
	var b strings.Builder
	for _, f := range r.Figures {
		var value string
		switch {
		case f.Speed > 0:
			value = fmt.Sprintf("%.0f MB/s", f.Speed)
		case f.Rate > 0:
			value = fmt.Sprintf("%.0f a second", f.Rate)
		default:
			value = fmt.Sprintf("%.1f ms, at most %.1f ms", f.Median, f.Slowest)
		}
		fmt.Fprintf(&b, "%-26s %-28s %s\n", f.Name, value, f.Means)
	}
	return b.String()
}

// BenchStore times what a push and a read ask of the store at url, with scratch
// objects that it removes again, also when it is interrupted. It asks no
// repository to be there, and changes none.
func BenchStore(ctx context.Context, url string, o StoreBenchOptions) (r *StoreBench, err error) {
	if o.Size <= 0 {
		o.Size = benchSize
	}
	if o.Calls <= 0 {
		o.Calls = benchCalls
	}
	if o.Small <= 0 {
		o.Small = benchSmall
	}
	store, err := openBare(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	b := &storeBench{store: store, o: o, prefix: blobstore.ProbePrefix + rand.Text() + "-", r: &StoreBench{URL: store.URL()}}
	defer func() { // the store is left as it was found
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if cerr := b.clean(clean); err == nil {
			err = storeError(cerr)
		}
	}()
	for _, step := range []func(context.Context) error{b.calls, b.large, b.small} {
		err := step(ctx)
		if ctx.Err() != nil {
			return nil, outcome.Wrap(outcome.Interrupted, "stopped; the scratch objects are removed", ctx.Err(), "run it again")
		}
		if err != nil {
			return nil, storeError(err)
		}
	}
	return b.r, nil
}

type storeBench struct {
	store  blobstore.Store
	o      StoreBenchOptions
	prefix string
	keys   []string // scratch objects that may be there
	r      *StoreBench
}

func (b *storeBench) key(name string) string {
	k := b.prefix + name
	b.keys = append(b.keys, k)
	return k
}

func (b *storeBench) add(f StoreFigure) { b.r.Figures = append(b.r.Figures, f) }

// calls times single calls, one after the other.
func (b *storeBench) calls(ctx context.Context) error {
	ref := b.key("ref")
	version, err := blobstore.PutIfAbsentConfirmed(ctx, b.store, ref, blobstore.BytesBody([]byte("0\n")))
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name, means string
		call        func(i int) error
	}{
		{"look at an object", "a push asks this of each new data file", func(int) error {
			_, err := b.store.Head(ctx, ref)
			return err
		}},
		{"read a small object", "a ref, a version: each command begins with a few", func(int) error {
			return readAll(ctx, b.store, ref)
		}},
		{"create a small object", "a push creates the four files of a version", func(i int) error {
			_, err := b.store.PutIfAbsent(ctx, b.key(fmt.Sprint("new-", i)), blobstore.BytesBody(fmt.Append(nil, i)))
			return err
		}},
		{"move a ref on condition", "the last step of a push; two writers take turns at it", func(i int) (err error) {
			version, err = b.store.PutIfMatch(ctx, ref, version, fmt.Appendf(nil, "%d\n", i+1))
			return err
		}},
	} {
		if err := b.timed(c.name, c.means, c.call); err != nil {
			return err
		}
	}
	return nil
}

func (b *storeBench) timed(name, means string, call func(i int) error) error {
	took := make([]float64, b.o.Calls)
	for i := range took {
		started := time.Now()
		if err := call(i); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		took[i] = time.Since(started).Seconds() * 1000
	}
	slices.Sort(took)
	b.add(StoreFigure{Name: name, Means: means, Median: took[len(took)/2], Slowest: took[len(took)-1]})
	return nil
}

// large times one large object each way.
func (b *storeBench) large(ctx context.Context) error {
	data := make([]byte, b.o.Size)
	if _, err := rand.Read(data); err != nil { // a store may compress
		return err
	}
	key, body := b.key("large"), blobstore.BytesBody(data)
	speed := func(name, means string, call func() error) error {
		started := time.Now()
		if err := call(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.add(StoreFigure{Name: name, Means: means, Speed: float64(b.o.Size) / 1e6 / time.Since(started).Seconds()})
		return nil
	}
	if err := speed("write a large object", "uploading data files", func() error {
		_, err := b.store.PutIfAbsent(ctx, key, body)
		return err
	}); err != nil {
		return err
	}
	return speed("read a large object", "first reads through a mount, tarn clone", func() error { return readAll(ctx, b.store, key) })
}

// small times many small objects at a time.
func (b *storeBench) small(ctx context.Context) error {
	data := make([]byte, benchBytes)
	keys := make([]string, b.o.Small)
	for i := range keys {
		keys[i] = b.key(fmt.Sprint("small-", i))
	}
	rate := func(name, means string, call func(i int) error) error {
		var g errgroup.Group
		g.SetLimit(benchWidth)
		started := time.Now()
		for i := range keys {
			g.Go(func() error { return call(i) })
		}
		if err := g.Wait(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.add(StoreFigure{Name: name, Means: means, Rate: float64(len(keys)) / time.Since(started).Seconds()})
		return nil
	}
	if err := rate("write small objects", "many small data files, 16 at a time", func(i int) error {
		_, err := b.store.PutIfAbsent(ctx, keys[i], blobstore.BytesBody(fmt.Append(data, i)))
		return err
	}); err != nil {
		return err
	}
	return rate("read small objects", "likewise", func(i int) error { return readAll(ctx, b.store, keys[i]) })
}

// clean removes the scratch objects, and says which one it could not.
func (b *storeBench) clean(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(benchWidth)
	for _, k := range b.keys {
		g.Go(func() error { return b.store.Delete(ctx, k) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("remove the scratch objects below %s: %w", b.prefix, err)
	}
	return nil
}

func readAll(ctx context.Context, s blobstore.Store, key string) error {
	r, _, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}
