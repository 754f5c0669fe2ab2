package engine

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tarnfs/tarn/engine/outcome"
)

// outcomes remembers how each verb of a working folder ended last. It is
// kept in a file, so that a failure is still told after a restart.
type outcomes struct {
	path string
	now  func() time.Time

	mu   sync.Mutex // guards what follows; no other lock is taken under it
	last map[Verb]ended
}

// ended is one remembered outcome.
type ended struct {
	Verb    Verb            `json:"verb"`
	At      time.Time       `json:"at"`
	Outcome outcome.Outcome `json:"outcome"`
	Text    string          `json:"text"` // one or two lines
	// Echo: the verb was refused only because another one has failed, and
	// that one's text says why. It is told to who asked, and is not a failure
	// of its own: FAILED.txt would only point at itself.
	Echo bool `json:"echo,omitempty"`
	// Past: a reset that failed, before another verb succeeded. Nothing waits
	// for a reset to be tried again, unlike a commit or a push.
	Past bool `json:"past,omitempty"`
}

func openOutcomes(path string, now func() time.Time) *outcomes {
	o := &outcomes{path: path, now: now, last: map[Verb]ended{}}
	b, err := os.ReadFile(path)
	if err == nil && json.Unmarshal(b, &o.last) != nil {
		// A torn file tells nothing; the next verb writes it anew.
		o.last = map[Verb]ended{}
	}
	return o
}

// errCommitFailed: a push is refused because the last commit failed.
var errCommitFailed = errors.New("engine: the last commit failed")

// set remembers err (nil: success, told by text) as the outcome of v.
func (o *outcomes) set(v Verb, err error, text string) {
	e := ended{Verb: v, At: o.now().UTC(), Outcome: outcome.Of(err), Text: text}
	if err != nil {
		e.Text, e.Echo = failureText(v, err), errors.Is(err, errCommitFailed)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last[v] = e
	if v == VerbReset && err == nil {
		// What failed is gone with the work it failed on.
		delete(o.last, VerbCommit)
	}
	if r, ok := o.last[VerbReset]; ok && err == nil {
		r.Past = true
		o.last[VerbReset] = r
	}
	o.saveLocked()
}

func (o *outcomes) saveLocked() {
	b, err := json.Marshal(o.last)
	if err != nil {
		return
	}
	tmp := o.path + ".new"
	if os.WriteFile(tmp, b, 0o600) == nil {
		_ = os.Rename(tmp, o.path) // best effort: the outcome was already returned to the caller
	}
}

// forget ends the failure of v, if there is one.
func (o *outcomes) forget(v Verb) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last[v].Outcome == outcome.Done {
		return
	}
	delete(o.last, v)
	o.saveLocked()
}

func (o *outcomes) get(v Verb) (ended, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.last[v]
	return e, ok
}

// failed is the newest failure that no later success of the same verb, or for
// a reset of any, has ended, or ok false.
func (o *outcomes) failed() (ended, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found ended
	for _, e := range o.last {
		if e.Outcome != outcome.Done && !e.Echo && !e.Past && e.At.After(found.At) {
			found = e
		}
	}
	return found, found.Verb != ""
}

// failureText is FAILED.txt: one line what, one line what to do.
func failureText(v Verb, err error) string {
	word := "failed"
	if o := outcome.Of(err); o == outcome.Refused || o == outcome.Moved {
		word = "refused"
	}
	what := outcome.Message(err)
	next := upperFirst(strings.TrimSuffix(outcome.Next(err), ", then try again"))
	if !strings.Contains(next, "touch .") && !(v == VerbPull && outcome.Of(err) == outcome.Conflict) {
		next += ", then: touch ." + string(v)
	}
	if v == VerbCommit {
		next = "nothing was changed; your files are still here. " + next
	}
	return string(v) + " " + word + ": " + oneLine(what) + "\n" + next + "\n"
}

func upperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

// oneLine folds what a library may have put on several lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func outcomesPath(dir string) string { return filepath.Join(dir, "outcomes.json") }
