package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
)

// turnLimit bounds how long a verb waits for the one before it. A waiter may
// sit inside a request of the kernel, so the wait must have a limit.
const turnLimit = 30 * time.Second

// turn takes the folder's one place for a verb. The caller gives it back.
func (w *Work) turn(ctx context.Context) (release func(), err error) {
	timer := time.NewTimer(turnLimit)
	defer timer.Stop()
	select {
	case w.verbs <- struct{}{}:
		err := w.takeUp(w.ctx)
		if err == nil {
			err = w.held(w.ctx)
		}
		if err != nil {
			<-w.verbs
			return nil, err
		}
		return func() { <-w.verbs }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.closing:
		return nil, outcome.New(outcome.Busy, "the working folder is closing", "mount it again")
	case <-timer.C:
		return nil, outcome.New(outcome.Busy, "another commit, push, pull or reset is still running", "wait until status says that it has ended")
	}
}

// Act runs a verb to its end and remembers its outcome. When ctx ends first,
// Act returns and the verb goes on: it was asked for, and stopping it half way
// would help nobody.
func (w *Work) Act(ctx context.Context, v Verb, message string) error {
	done := make(chan error, 1)
	if !w.background(func(bg context.Context) { done <- w.act(bg, ctx, v, message) }) {
		return outcome.New(outcome.Busy, "the working folder is closing", "mount it again")
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return outcome.Wrap(outcome.Interrupted, "no longer waiting for "+string(v), context.Cause(ctx), "the work goes on; status tells")
	}
}

func (w *Work) act(bg, caller context.Context, v Verb, message string) (err error) {
	// Who stops waiting before its turn has come wants nothing done.
	wait, cancel := context.WithCancel(caller)
	stop := context.AfterFunc(bg, cancel)
	release, err := w.turn(wait)
	stop()
	cancel()
	if err != nil {
		return err
	}
	defer release()
	defer w.running(v)()
	var text string
	switch v {
	case VerbCommit:
		var r *CommitResult
		if r, err = w.commit(bg, CommitOptions{Message: message}); err == nil {
			text = r.Text()
		}
	case VerbPush:
		if e, bad := w.outcomes.get(VerbCommit); bad && e.Outcome != outcome.Done {
			err = outcome.Mark(e.Outcome, "the last commit failed, see FAILED.txt", errCommitFailed, "mend it and touch .commit")
			break
		}
		var r *PushResult
		if r, err = w.push(bg, PushOptions{}); err == nil {
			text = r.Text()
		}
	case VerbPull:
		var r *PullResult
		if r, err = w.pull(bg); err == nil {
			text = r.Text()
		}
	case VerbReset:
		var r *ResetResult
		if r, err = w.reset(bg, ResetOptions{}); err == nil {
			text = r.Text()
		}
	default:
		err = outcome.New(outcome.NotFound, fmt.Sprintf("no such control file: .%s", v), "")
	}
	err = w.fenced(bg, err)
	if v == VerbPull {
		w.ended(v, err, text)
	} else {
		w.outcomes.set(v, err, text)
	}
	if err != nil {
		w.log.WarnContext(bg, "verb failed", keyVerb, string(v), keyBranch, w.branch, keyErr, err)
	}
	return err
}

// Commit makes a version of what the working folder holds.
func (w *Work) Commit(ctx context.Context, o CommitOptions) (*CommitResult, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.running(VerbCommit)()
	// From here on a cancelled caller only stops waiting: see Act.
	r, err := w.commit(context.WithoutCancel(ctx), o)
	err = w.inItsWords(w.fenced(ctx, err))
	w.outcomes.set(VerbCommit, err, textOf(r))
	return r, err
}

// inItsWords names the commands where a message names the control files, which
// lead nowhere in a plain checkout.
func (w *Work) inItsWords(err error) error {
	var e *outcome.Error
	if w.plain == nil || !errors.As(err, &e) || !strings.Contains(e.Next, "touch .") {
		return err
	}
	next := *e
	next.Next = strings.NewReplacer("touch .commit", "tarn commit", "touch .push", "tarn push", "touch .pull", "tarn pull", "touch .reset", "tarn reset").Replace(e.Next)
	return &next
}

// Push publishes the committed versions, oldest first.
func (w *Work) Push(ctx context.Context, o PushOptions) (*PushResult, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.running(VerbPush)()
	r, err := w.push(ctx, o)
	err = w.inItsWords(w.fenced(ctx, err))
	w.outcomes.set(VerbPush, err, textOf(r))
	return r, err
}

// Reset drops uncommitted work into the trash.
func (w *Work) Reset(ctx context.Context, o ResetOptions) (*ResetResult, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.running(VerbReset)()
	r, err := w.reset(context.WithoutCancel(ctx), o)
	err = w.inItsWords(w.fenced(ctx, err))
	w.outcomes.set(VerbReset, err, textOf(r))
	if err == nil && o.Last {
		w.outcomes.forget(VerbPush) // what could not be published is gone
		w.outcomes.forget(VerbPull)
	}
	return r, err
}

// texter is a result that can say itself in words.
type texter interface{ Text() string }

func textOf[T any, P interface {
	*T
	texter
}](r P) string {
	if r == nil {
		return ""
	}
	return r.Text()
}

// running notes which verb runs since when, for status.
func (w *Work) running(v Verb) (end func()) {
	w.mu.Lock()
	w.verb, w.verbSince = v, w.e.now()
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.verb = ""
		w.mu.Unlock()
	}
}

// background starts f in the folder's group, which Close waits for. It says
// false when the folder is closing.
func (w *Work) background(f func(context.Context)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Add(1)
	go func() {
		defer w.group.Done()
		f(w.ctx)
	}()
	return true
}

// LastOutcome is what reading a control file gives: how the verb ended last.
func (w *Work) LastOutcome(v Verb) string {
	e, ok := w.outcomes.get(v)
	if !ok {
		return string(v) + ": not asked for yet\n"
	}
	text := e.Text
	if text == "" {
		text = string(v) + ": " + e.Outcome.String() + "\n"
	}
	return text
}

// HasVerb says whether a control file exists.
func (w *Work) HasVerb(v Verb) bool {
	return v == VerbCommit || v == VerbPush || v == VerbPull || v == VerbReset
}

// FolderSync is fsync of the working folder itself: what on_sync in
// meta/options.toml says.
func (w *Work) FolderSync(ctx context.Context) error {
	o, err := w.options()
	if err != nil {
		return err
	}
	if o.OnSync == "none" {
		return nil
	}
	return w.Act(ctx, VerbCommit, "")
}

// FailedText is FAILED.txt, "" when nothing failed since the last success.
func (w *Work) FailedText() string {
	if err := w.lost(); err != nil {
		return oneLine(outcome.Message(err)) + "\n" + upperFirst(outcome.Next(err)) + "\n"
	}
	e, ok := w.outcomes.failed()
	if !ok {
		return ""
	}
	return e.Text
}

// errIs is errors.Is for several targets.
func errIs(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
