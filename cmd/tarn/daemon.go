package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/fs"
	"github.com/tarnfs/tarn/mount"
)

// daemon is one mount at work. It is put together in this order, and taken
// apart in the other: repository, mounts, working folders, control socket.
type daemon struct {
	k      *call
	o      mountOptions
	engine *engine.Engine
	began  time.Time // who has taken a ledger since then is not shut out by --take-over
	tree   *fs.Work  // nil with --read-only
	pair   *mount.Pair
	server *server
	remove func() // the control socket's files
	// detached: the mounts are taken away, though somebody may still be in them.
	detached bool
	group    sync.WaitGroup // the try to end on a signal

	mu    sync.Mutex // guards works
	works map[string]*engine.Work
}

// verbLimit is how long the end of a mount waits for a commit or push that is
// running; after that the mount goes and the verb ends without it.
const verbLimit = 2 * time.Minute

// runDaemon mounts, serves and cleans up. It returns nil when the mount was
// ended, by whomever.
func runDaemon(ctx context.Context, k *call, o mountOptions) (err error) {
	r := openReady(o.ReadyFD)
	worker := k.newWorker()
	d := &daemon{k: k, o: o, began: time.Now(), works: map[string]*engine.Work{}}
	defer func() {
		if err != nil {
			b := describeError(err)
			r.say(readyMessage{Error: &b}) // says nothing once it said that the mount stands
		}
	}()
	defer func() { err = errors.Join(err, worker.Close()) }()
	if d.engine, err = engine.Open(ctx, k.engineOptions(ctx, o.URL, worker)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.engine.Close()) }()
	if err := d.start(ctx); err != nil {
		return errors.Join(err, d.stop())
	}
	if err := d.announce(ctx, &r); err != nil {
		return errors.Join(err, d.stop())
	}
	return errors.Join(d.serve(ctx), d.stop())
}

// serve waits for the end of the mount: somebody unmounted it, or a signal
// asked for it. A mount that is in use stays, until the second signal.
func (d *daemon) serve(ctx context.Context) error {
	again := make(chan struct{}, 1)
	if d.k.OnSecond != nil {
		d.k.OnSecond(func() {
			select {
			case again <- struct{}{}:
			default:
			}
		})
	}
	asked := ctx.Done()
	for {
		select {
		case <-d.pair.Done():
			return d.pair.Wait()
		case <-asked:
			asked = nil
			d.group.Go(d.endOnSignal)
		case <-again:
			d.k.Log.Warn("second signal: the mount is taken away from those who use it")
			d.detached = true
			return d.pair.Detach()
		}
	}
}

// endOnSignal tries once to end the mount in order.
func (d *daemon) endOnSignal() {
	if err := d.unmount(context.Background(), false); err != nil {
		d.k.Log.Error("asked to end, but the mount is in use; it goes on", "error", err, "hint", outcome.Next(err))
		_, _ = fmt.Fprintf(d.k.Stderr, "tarn: %s\n  leave it, or send the signal again\n", oneLine(err.Error()))
	}
}

// start mounts, opens the working folder of HEAD's branch, and opens the
// control socket. The mounts come first because a mount point that cannot be
// one is found there, before any state is made; nobody is told of them yet.
func (d *daemon) start(ctx context.Context) error {
	if !d.o.ReadOnly {
		d.tree = fs.NewWork(fs.WorkOptions{Common: d.common(), Open: d.openWork, Close: d.closeWork, Branches: d.engine.Branches})
	}
	pair, err := mount.MountPair(ctx, d.pairOptions())
	if err != nil {
		return err
	}
	d.pair = pair
	var points []string
	if d.tree != nil {
		if err := d.openHead(ctx); err != nil {
			return err
		}
		d.tree.Mounted(pair.WorkDir())
		points = append(points, pair.WorkDir())
	}
	dir, err := d.k.socketDir()
	if err != nil {
		return err
	}
	ln, remove, err := listen(dir, pair.Repo.Dir(), points...)
	if err != nil {
		return err
	}
	d.remove = remove
	d.server = serve(ln, d, d.k.Log)
	if d.o.PIDFile != "" {
		if err := os.WriteFile(d.o.PIDFile, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
			return fmt.Errorf("write process id: %w", err)
		}
	}
	return nil
}

// stop undoes what start has done so far. Whoever is still in the mount when
// it was detached keeps what is open until the process ends.
func (d *daemon) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	var err error
	if d.pair != nil && !d.detached {
		select {
		case <-d.pair.Done():
		default:
			if err = d.pair.Unmount(); outcome.Of(err) == outcome.Busy {
				err = d.pair.Detach()
			}
		}
	}
	d.group.Wait()
	if d.tree != nil {
		d.tree.Unmounted()
	}
	if d.server != nil {
		d.server.close(ctx)
		d.remove()
	}
	if d.o.PIDFile != "" {
		_ = os.Remove(d.o.PIDFile)
	}
	return err
}

// openHead opens the working folder of HEAD's branch.
func (d *daemon) openHead(ctx context.Context) error {
	branch, err := d.engine.Head(ctx)
	if err != nil {
		return err
	}
	w, err := d.openWorkIn(ctx, branch, engine.LedgerOptions{Store: d.o.Store, TakeOver: d.o.TakeOver})
	if err != nil {
		return err
	}
	d.tree.Add(w)
	return nil
}

func (d *daemon) openWork(ctx context.Context, branch string) (engine.Workspace, error) {
	return d.openWorkIn(ctx, branch, engine.LedgerOptions{Store: d.o.Store, TakeOver: d.o.TakeOver, HeldBefore: d.began})
}

// openWorkIn opens a working folder. After the start only what was held before
// it may be taken over: whoever opens another branch months later does not mean
// to shut out somebody who has come since.
func (d *daemon) openWorkIn(ctx context.Context, branch string, o engine.LedgerOptions) (engine.Workspace, error) {
	w, err := d.engine.OpenWorkIn(ctx, branch, o)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.works[branch] = w
	d.mu.Unlock()
	return w, nil
}

// closeWork is rmdir of work/<branch>: only what holds nothing may go.
func (d *daemon) closeWork(ctx context.Context, branch string) error {
	d.mu.Lock()
	w := d.works[branch]
	d.mu.Unlock()
	if w == nil {
		return outcome.New(outcome.NotFound, "work/"+branch+" is not open", "")
	}
	left, err := leftOf(ctx, w)
	if err != nil {
		return err
	}
	if words := left.words(); len(words) > 0 {
		return outcome.New(outcome.Busy, strings.Join(words, "; "), "commit and push it, or drop it with tarn reset --last")
	}
	d.mu.Lock()
	delete(d.works, branch)
	d.mu.Unlock()
	return w.Close()
}

// announce says that the mount stands.
func (d *daemon) announce(ctx context.Context, r *ready) error {
	doc := d.describe()
	for _, l := range d.leftovers(ctx) {
		doc.Notes = append(doc.Notes, l.words()...)
	}
	for _, b := range d.branches() {
		if w := d.work(b); w != nil && w.Aside() != "" {
			doc.Notes = append(doc.Notes, "work/"+b+": another host had gone on; what was not committed here is in "+w.Aside())
		}
	}
	if !d.o.ReadOnly {
		for _, l := range d.engine.LeftByOthers() {
			doc.Notes = append(doc.Notes, fmt.Sprintf("user %s has committed and not pushed: work/%s, %s, in %s; to publish: mount as %s, then touch .push",
				l.User, l.Branch, count(l.Versions, "version"), l.Dir, l.User))
		}
	}
	if r.f != nil {
		r.say(readyMessage{Mount: &doc})
		return nil
	}
	for _, n := range doc.Notes {
		_, _ = fmt.Fprintln(d.k.Stderr, n)
	}
	return d.k.report(doc)
}

func (d *daemon) describe() mountDoc {
	doc := mountDoc{URL: d.engine.URL(), Point: d.pair.Repo.Dir(), ReadOnly: d.o.ReadOnly, PID: os.Getpid()}
	if d.pair.WorkDir() != "" {
		doc.Work = d.pair.WorkDir()
		doc.Open = d.branches()
	}
	return doc
}

// Info tells what this mount is.
func (d *daemon) Info(context.Context) (document, error) { return d.describe(), nil }

// Unmount ends the mount and says what is left in its working folders.
func (d *daemon) Unmount(ctx context.Context, o umountOptions) (document, error) {
	doc := umountDoc{Point: d.pair.Repo.Dir(), Leftovers: d.leftovers(ctx), PID: os.Getpid()}
	if err := d.unmount(ctx, o.Lazy); err != nil {
		return nil, err
	}
	return doc, nil
}

// unmount ends the mounts. A verb that is running keeps them busy, through its
// worker and through whoever waits for it; it is waited for.
func (d *daemon) unmount(ctx context.Context, lazy bool) error {
	if lazy {
		return d.pair.Detach()
	}
	ctx, cancel := context.WithTimeout(ctx, verbLimit)
	defer cancel()
	for {
		err := d.pair.Unmount()
		if outcome.Of(err) != outcome.Busy || !onlyOurs(err) && !d.verbRuns(ctx) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// verbRuns says that a commit, push or reset of a working folder is running.
func (d *daemon) verbRuns(ctx context.Context) bool {
	for _, b := range d.branches() {
		if w := d.work(b); w != nil {
			if s, err := w.Status(ctx); err == nil && s.Running != "" {
				return true
			}
		}
	}
	return false
}

// onlyOurs says that a mount is busy with nobody but our own child processes.
func onlyOurs(err error) bool {
	var b *mount.BusyError
	if !errors.As(err, &b) || len(b.Holders) == 0 || b.Inner != "" {
		return false
	}
	for _, h := range b.Holders {
		if parentOf(h.PID) != os.Getpid() {
			return false
		}
	}
	return true
}

// parentOf reads the parent of a process, 0 when it has ended, also when
// nobody has waited for it yet.
func parentOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// pid (name) state ppid ...: the name may hold anything, also parentheses.
	rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
	var state string
	var ppid int
	if _, err := fmt.Sscan(rest, &state, &ppid); err != nil || state == "Z" {
		return 0
	}
	return ppid
}

// mountInfo asks the daemon of the mount at p what it is.
func mountInfo(ctx context.Context, h *host, p *place) (mountDoc, error) {
	var m mountDoc
	d, err := ask(ctx, h, p, verbInfo, nil, nil)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(d.doc, &m); err != nil {
		return m, fmt.Errorf("read the daemon's answer: %w", err)
	}
	return m, nil
}

// branchAt is the open working folder that rel, below the mount point dir,
// lies in. A branch may hold slashes; of several the longest is meant.
func (d mountDoc) branchAt(dir, rel string) (string, bool) {
	path := filepath.Join(dir, rel)
	if d.Work == "" || !mount.Within(path, d.Work) {
		return "", false
	}
	best, found := "", false
	for _, b := range d.Open {
		if mount.Within(path, filepath.Join(d.Work, b)) && len(b) >= len(best) {
			best, found = b, true
		}
	}
	return best, found
}
