package engine_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/serve"
)

const week = 168 * time.Hour

// weeks is a bench whose store and machine have clocks that a test can set on.
type weeks struct {
	*bench
	aged *enginetest.Aged
	via  func() blobstore.Store // how pushes reach it
	off  atomic.Int64           // of the machine's clock
}

func newWeeks(t testing.TB) *weeks {
	t.Helper()
	w := &weeks{bench: newBench(t)}
	local, err := blobstore.OpenLocal(w.root())
	if err != nil {
		t.Fatal(err)
	}
	w.aged = enginetest.NewAged(local)
	w.now = func() time.Time { return time.Now().Add(time.Duration(w.off.Load())) }
	w.via = func() blobstore.Store { return w.aged }
	w.store = w.via
	t.Cleanup(func() { // the last check of the bench is on the folder itself
		w.store = nil
		local.Close()
	})
	return w
}

func (w *weeks) pass(d time.Duration) {
	w.aged.Pass(d)
	w.off.Add(int64(d))
}

// collect runs a garbage collection on a store.
func (w *weeks) collect(s blobstore.Store) error {
	r, err := repo.OpenUnchecked(w.t.Context(), s)
	if err == nil {
		_, err = r.GC(w.t.Context(), repo.GCOptions{})
	}
	return err
}

// stopPush commits and pushes, with the last swap of the ref never sent.
func (w *weeks) stopPush(text string) repo.ID {
	w.t.Helper()
	faulty := blobstore.NewFaulty(w.via())
	w.store = func() blobstore.Store { return faulty }
	e, f := w.open()
	drop(w.t, f, "main/t/a.csv", text)
	id := commit(w.t, f).ID
	faulty.Inject(blobstore.Fault{Onwards: true, Match: func(c blobstore.Call) bool { return c.Op == blobstore.OpPutIfMatch && c.Key == "refs/heads/main" }})
	if _, err := f.Push(w.t.Context(), engine.PushOptions{}); err == nil || !faulty.Fired() {
		w.t.Fatalf("the push was not stopped: %v", err)
	}
	e.Close()
	w.store = w.via
	return id
}

// published holds the whole repository to its format, with every byte.
func (w *weeks) published(when string, want int) {
	w.t.Helper()
	e, f := w.open()
	defer e.Close()
	w.checkOpen(e, f)
	found, err := e.Repository().CheckWith(w.t.Context(), repo.CheckOptions{Data: true})
	if err != nil || len(found) > 0 {
		w.t.Errorf("%s: %v, %v", when, found, err)
	}
	if list, err := e.Log(w.t.Context(), "main", 0); err != nil || len(list) != want {
		w.t.Errorf("%s: history of %d, want %d: %v", when, len(list), want, err)
	}
}

// TestPushSleepsBesideGC: a push is stopped before the ref moves, and a week
// goes by. It goes on at each store call of a collection in turn, to its end or
// until it waits for the collection: nothing that it publishes is missing.
func TestPushSleepsBesideGC(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	pushSleepsBesideGC(t, newWeeks(t))
}

// TestPushSleepsBesideGCOverHTTP: the same through tarn serve, while the
// collection runs where the repository lies.
func TestPushSleepsBesideGCOverHTTP(t *testing.T) {
	w := newWeeks(t)
	const token = "sleeper-0123456789abcdef"
	tokens := filepath.Join(w.dir, "tokens")
	if err := os.WriteFile(tokens, []byte("write sleeper "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(t.Context(), w.aged, serve.Options{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	t.Setenv("TARN_TOKEN", token)
	w.via = func() blobstore.Store {
		store, err := blobstore.Open(context.Background(), h.URL, nil)
		if err != nil {
			t.Error(err)
		}
		return store
	}
	w.store = w.via
	pushSleepsBesideGC(t, w)
}

func pushSleepsBesideGC(t *testing.T, w *weeks) {
	e, f := w.open()
	drop(t, f, "main/t/a.csv", "x\n0\n")
	commit(t, f)
	push(t, f)
	e.Close()
	waited, want := 0, 1
	for n := 0; ; n++ {
		if n > 200 {
			t.Fatal("a collection never ends")
		}
		id := w.stopPush(fmt.Sprintf("x\n%d\n", n+1))
		w.pass(week + time.Hour)
		done := make(chan error, 1)
		calls := 0
		err := w.collect(&enginetest.Hooked{Store: w.aged, Before: func(c blobstore.Call) {
			// Not each read of the history, which grows by a version each time.
			if c.Op == blobstore.OpGet && strings.HasPrefix(c.Key, "versions/") && !strings.Contains(c.Key, string(id)) {
				return
			}
			if calls++; calls-1 != n {
				return
			}
			waiting := make(chan struct{}, 1)
			go func() {
				e, f := w.open()
				_, err := f.Push(t.Context(), engine.PushOptions{Waiting: func() {
					select {
					case waiting <- struct{}{}:
					default:
					}
				}})
				e.Close()
				done <- err
			}()
			select {
			case err := <-done:
				done <- err
			case <-waiting:
				waited++
			}
		}})
		if err != nil && outcome.Of(err) != outcome.Busy { // what is being put again may be incomplete
			t.Errorf("call %d: the collection: %v", n, err)
		}
		if calls <= n { // the whole collection came before
			e, f := w.open()
			push(t, f)
			e.Close()
			w.published("after all", want+1)
			break
		}
		if err := <-done; err != nil {
			t.Fatalf("call %d: the push: %v", n, err)
		}
		want++
		w.published(fmt.Sprintf("call %d", n), want)
		if t.Failed() {
			return
		}
	}
	if want < 15 || waited < 10 {
		t.Errorf("%d collections met a push, %d were waited for", want-1, waited)
	}
}

// TestPushSleepsInside: a push sleeps for a week at each of its own store calls
// in turn, while a whole collection runs.
func TestPushSleepsInside(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	w := newWeeks(t)
	collected := 0
	for n := 0; ; n++ {
		if n > 200 {
			t.Fatal("a push never ends")
		}
		calls := 0
		hooked := &enginetest.Hooked{Store: w.aged, Before: func(c blobstore.Call) {
			if calls++; calls-1 == n {
				w.pass(week + time.Hour)
				collected++
				if err := w.collect(w.aged); err != nil {
					t.Errorf("call %d: the collection: %v", n, err)
				}
			}
		}}
		e, f := w.open()
		drop(t, f, "main/t/a.csv", fmt.Sprintf("x\n%d\n", n))
		commit(t, f)
		e.Close()
		w.store = func() blobstore.Store { return hooked }
		calls = -1 << 30 // not while opening
		e, f = w.open()
		calls = 0
		_, err := f.Push(t.Context(), engine.PushOptions{})
		if err != nil { // the collection took what was not yet looked at again
			t.Errorf("call %d: %v", n, err)
		}
		met := calls > n
		calls = 1 << 30
		e.Close()
		w.store = func() blobstore.Store { return w.aged }
		w.published(fmt.Sprintf("call %d", n), n+1)
		if t.Failed() {
			return
		}
		if !met {
			break
		}
	}
	if collected < 8 {
		t.Errorf("only %d collections", collected)
	}
}

// TestGCForeign: the files of a version without files.json are known from its
// catalog; nothing of it goes.
func TestGCForeign(t *testing.T) {
	t.Parallel()
	w := newWeeks(t)
	e, f := w.open()
	drop(t, f, "main/t/a.csv", "x\n1\n")
	commit(t, f)
	push(t, f)
	drop(t, f, "main/t/a.csv", "x\n2\n")
	commit(t, f)
	id := push(t, f).Tip
	e.Close()
	bareVersion(t, w.aged, id)
	w.pass(week + time.Hour)
	e, _ = w.open()
	defer e.Close()
	before := listKeys(t, w.aged)
	r, err := e.GC(t.Context(), engine.GCOptions{})
	if err != nil || r.Objects != 0 {
		t.Errorf("deleted %v: %v", r.Deleted, err)
	}
	if after := listKeys(t, w.aged); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// bareVersion takes away what another tool need not write: files.json,
// dataset.json and every field that speaks of them.
func bareVersion(t testing.TB, s blobstore.Store, id repo.ID) {
	t.Helper()
	key := repo.VersionKey(id, repo.VersionFile)
	r, err := repo.OpenUnchecked(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.ReadVersion(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var parents []string
	for _, p := range v.Parents {
		parents = append(parents, `"`+string(p)+`"`)
	}
	text := fmt.Sprintf(`{"id": %q, "parents": [%s], "message": "by another tool", "created_at": %q, "ducklake": {"snapshot_id": %d}, "sha256": {}, "colour": "green"}`,
		id, strings.Join(parents, ", "), v.CreatedAt.Format(time.RFC3339Nano), v.DuckLake.SnapshotID)
	for _, name := range []string{repo.FilesFile, repo.DatasetFile, repo.VersionFile} {
		if err := s.Delete(t.Context(), repo.VersionKey(id, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.PutIfMatch(t.Context(), key, "", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func listKeys(t testing.TB, s blobstore.Store) []string {
	t.Helper()
	var list []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, info.Key)
	}
	return list
}
