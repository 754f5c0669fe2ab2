package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
)

// Several writers of one branch. Who was beaten must pull, which takes longer
// than the next commit and push of who won: so the winner would win again, for
// as long as it has something to push. Hence a pull that has work to redo claims
// the branch first, and whoever pushes to a branch that has just moved looks for
// a claim and gives way until the claimant has pushed. The next claimant is
// whichever of the beaten looks first then; they wait meanwhile, because what
// they redid would be beaten again.
//
// A claim costs an undisturbed push nothing: only on a branch that moved within
// claimBusy one more object is asked for. A claimant that died, or thinks for a
// long time, is waited for claimWait once; then the claim is taken from it. No
// error of a claim matters, and every wait has an end.

const (
	// claimBusy is how long ago the last version of a branch was made, by this
	// machine's clock, that may still have rivals.
	claimBusy = time.Minute
	// claimWait is how long a claimant is given; claimMost how long all of them
	// together.
	claimWait, claimMost = 5 * time.Second, time.Minute
	// claimDead is the age, by this machine's clock, of a claim that nobody waits
	// for.
	claimDead = 10 * time.Minute
	// claimPoll and claimPollMost are how soon is looked again.
	claimPoll, claimPollMost = 50 * time.Millisecond, 500 * time.Millisecond
)

// claimant is this working folder as the holder of a claim: the same for each
// process that works in it, and no word of where it lies.
func (w *Work) claimant() string {
	host, _ := os.Hostname() // without one the folder has to do
	sum := sha256.Sum256([]byte(host + "\x00" + w.folder.Dir()))
	return hex.EncodeToString(sum[:16])
}

// claim takes the claim to the branch when there is work to redo on it. It
// returns an error only when ctx ends.
func (w *Work) claim(ctx context.Context) error {
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil || len(unpushed) == 0 {
		return ctx.Err()
	}
	tip, err := w.e.BranchTarget(ctx, w.branch)
	if err != nil || tip == repo.ID(unpushed[0].Parent) || w.e.ensureSafe(ctx) != nil {
		return ctx.Err()
	}
	return w.awaitClaim(ctx, func(ref repo.RefName, have blobstore.Version) bool { return w.takeClaim(ctx, ref, have) })
}

// takeClaim tries to take a claim from nobody, or from who had it too long.
// false: look again.
func (w *Work) takeClaim(ctx context.Context, ref repo.RefName, have blobstore.Version) bool {
	ok, err := w.e.repo.TakeClaim(ctx, ref, w.claimant(), have)
	w.unclaimed(ctx, err)
	w.claimed = ok
	return ok || err != nil
}

// lookAtBranch reads the branch for a push on base. Where it has just moved, that
// is after waiting for who has a claim to it; both are asked for at once. It
// returns an error only when ctx ends: how the reading went is in the look.
func (w *Work) lookAtBranch(ctx context.Context, ref repo.RefName, base repo.ID) (*branchLook, error) {
	look := &branchLook{}
	tree, err := w.e.version(ctx, base)
	if err != nil || base == "" || w.e.now().Sub(tree.Time()) > claimBusy {
		look.read(ctx, w.e.repo, ref)
		return look, nil
	}
	var c repo.Claim
	var asking sync.WaitGroup
	asking.Go(func() {
		c, err = w.e.repo.ReadClaim(ctx, ref)
		w.unclaimed(ctx, err)
	})
	look.read(ctx, w.e.repo, ref)
	asking.Wait()
	w.claimed = c.Holder == w.claimant()
	if w.claimed || c.Holder == "" {
		return look, nil
	}
	err = w.awaitClaim(ctx, func(ref repo.RefName, have blobstore.Version) bool {
		if have != "" {
			w.takeClaim(ctx, ref, have) // so that the push takes it away
		}
		return true
	})
	if err == nil {
		look.read(ctx, w.e.repo, ref)
	}
	return look, err
}

// branchLook is what a branch held when it was looked at.
type branchLook struct {
	tip   repo.ID // "": there is no such branch yet
	state blobstore.Version
	err   error
}

func (l *branchLook) read(ctx context.Context, r *repo.Repository, ref repo.RefName) {
	l.tip, l.state, l.err = r.Ref(ctx, ref)
	if errors.Is(l.err, repo.ErrNoRef) {
		*l = branchLook{}
	}
}

// awaitClaim calls take when nobody else has the claim, or has had it for long
// enough, with the state that it is in; take says whether that was all.
func (w *Work) awaitClaim(ctx context.Context, take func(repo.RefName, blobstore.Version) bool) error {
	ref, err := repo.BranchRef(w.branch)
	if err != nil {
		return nil
	}
	begun, poll := time.Now(), claimPoll
	var state blobstore.Version // that is waited for
	since := begun
	for {
		c, err := w.e.repo.ReadClaim(ctx, ref)
		if err != nil {
			w.unclaimed(ctx, err)
			return ctx.Err()
		}
		if c.State != state {
			state, since = c.State, time.Now()
		}
		switch {
		case c.Holder == w.claimant():
			w.claimed = true
			return nil
		case c.Holder == "", time.Since(since) > claimWait, w.e.now().Sub(c.Time) > claimDead:
			if take(ref, c.State) {
				return nil
			}
		}
		if time.Since(begun) > claimMost {
			return nil
		}
		pause := poll/2 + rand.N(poll) // or all would look at once
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		poll = min(2*poll, claimPollMost)
	}
}

// dropClaim gives the claim back.
func (w *Work) dropClaim(ctx context.Context) {
	if !w.claimed {
		return
	}
	w.claimed = false
	if ref, err := repo.BranchRef(w.branch); err == nil {
		w.unclaimed(ctx, w.e.repo.DropClaim(ctx, ref, w.claimant()))
	}
}

// unclaimed notes an error of a claim.
func (w *Work) unclaimed(ctx context.Context, err error) {
	if err != nil {
		w.log.DebugContext(ctx, "claim to the branch", keyErr, err)
	}
}
