package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/repo"
)

// CommitOptions of Work.Commit. The zero value takes message and author from
// the options of the working folder and the environment.
type CommitOptions struct {
	Message    string
	Author     string
	AllowEmpty bool              // make a version even when nothing changed
	Meta       map[string]string // into version.json, as it is
}

// CommitResult says what a commit did.
type CommitResult struct {
	ID      repo.ID  `json:"id,omitempty"` // the new version; "" when nothing changed
	Parent  repo.ID  `json:"parent,omitempty"`
	Branch  string   `json:"branch"`
	Message string   `json:"message,omitempty"`
	Changes []string `json:"changes,omitempty"` // a line each
}

// Text is the result in words, a line.
func (r *CommitResult) Text() string {
	if r.ID == "" {
		return "nothing to commit\n"
	}
	return fmt.Sprintf("committed %s %q\n", r.ID.Short(), r.Message)
}

// PushOptions of Work.Push.
type PushOptions struct {
	CheckAll  bool                         // look for every data file in the store, not only those the tip does not name
	Progress  func(done, total int64)      // bytes uploaded; may be nil
	Waiting   func()                       // now and then, while a garbage collection is waited for; may be nil
	Published func(id repo.ID, ref string) // each version whose ref has moved; may be nil
}

// PushResult says what a push published.
type PushResult struct {
	Branch   string    `json:"branch"`
	Versions []repo.ID `json:"versions"` // published now, oldest first
	Bytes    int64     `json:"bytes"`    // uploaded
	Tip      repo.ID   `json:"tip,omitempty"`
}

// Text is the result in words, a line.
func (r *PushResult) Text() string {
	if len(r.Versions) == 0 {
		return "nothing to push\n"
	}
	return fmt.Sprintf("pushed %s to %s, now at %s\n", plural(len(r.Versions), "version"), r.Branch, r.Tip.Short())
}

// ResetOptions of Work.Reset.
type ResetOptions struct {
	Last bool // drop committed versions that are not pushed, too
	Undo bool // bring back what the last reset dropped
}

// ResetResult says what a reset dropped or brought back.
type ResetResult struct {
	Branch  string   `json:"branch"`
	Base    repo.ID  `json:"base,omitempty"`
	Dropped []string `json:"dropped,omitempty"` // a line each
	Undone  bool     `json:"undone,omitempty"`
	Moved   bool     `json:"moved,omitempty"` // the base is another version than before
}

// Text is the result in words.
func (r *ResetResult) Text() string {
	at := "no version yet"
	if r.Base != "" {
		at = "at " + r.Base.Short()
	}
	switch {
	case r.Undone:
		return fmt.Sprintf("brought back what the last reset dropped; %s %s\n", r.Branch, at)
	case len(r.Dropped) == 0 && !r.Moved:
		return fmt.Sprintf("nothing to drop; %s %s\n", r.Branch, at)
	default:
		return fmt.Sprintf("dropped %s; %s %s. To bring it back within 7 days: tarn reset --undo\n", plural(len(r.Dropped), "change"), r.Branch, at)
	}
}

// Status is what a working folder holds beside its base.
type Status struct {
	Branch    string    `json:"branch"`
	Base      repo.ID   `json:"base,omitempty"`
	Message   string    `json:"message,omitempty"`  // of the base
	Unpushed  []repo.ID `json:"unpushed,omitempty"` // committed and not pushed, oldest first
	Tip       repo.ID   `json:"tip,omitempty"`      // the branch in the repository
	Moved     bool      `json:"moved,omitempty"`    // the branch has moved on
	Changes   []string  `json:"changes,omitempty"`  // to commit, a line each
	Problems  []string  `json:"problems,omitempty"` // what would refuse the commit
	Failed    string    `json:"failed,omitempty"`   // FAILED.txt
	Running   string    `json:"running,omitempty"`  // verb that runs now
	RunningBy string    `json:"running_for,omitempty"`
	Plain     bool      `json:"plain,omitempty"` // a plain checkout: commands do the work
}

// Text is the file status.
func (s *Status) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "branch %s", s.Branch)
	if s.Base == "" {
		b.WriteString(", no version yet.")
	} else {
		fmt.Fprintf(&b, " at %s %q, ", s.Base.Short(), s.Message)
		if n := len(s.Unpushed); n > 0 {
			b.WriteString(plural(n, "version") + " not pushed.")
		} else {
			b.WriteString("pushed.")
		}
	}
	commit, push, pull, reset := "touch .commit", "touch .push", "touch .pull", "touch .reset"
	if s.Plain {
		commit, push, pull, reset = "tarn commit", "tarn push", "tarn pull", "tarn reset"
	}
	switch nothing := len(s.Changes) == 0 && len(s.Problems) == 0; {
	case nothing && s.Running != "":
		b.WriteString("\n") // what there was may just be in the hands of the running verb
	case nothing:
		b.WriteString(" Nothing to commit.\n")
	default:
		b.WriteString(" To commit:\n")
		for _, c := range s.Changes {
			b.WriteString("  " + c + "\n")
		}
		for _, p := range s.Problems {
			b.WriteString("  ! " + p + "\n")
		}
		fmt.Fprintf(&b, "keep: %s    drop: %s\n", commit, reset)
	}
	if len(s.Unpushed) > 0 {
		fmt.Fprintf(&b, "to publish: %s\n", push)
	}
	if s.Moved {
		fmt.Fprintf(&b, "the branch has moved on: %s is its tip now; to go on from there: %s\n", s.Tip.Short(), pull)
	}
	if s.Running != "" {
		fmt.Fprintf(&b, "%s is running since %s\n", s.Running, s.RunningBy)
	}
	if s.Failed != "" {
		b.WriteString("the last request failed: see FAILED.txt\n")
	}
	return b.String()
}

// LogEntry is one version in a log.
type LogEntry struct {
	ID      repo.ID   `json:"id"`
	Parents []repo.ID `json:"parents,omitempty"`
	Number  int64     `json:"number"`
	Author  string    `json:"author"`
	Time    time.Time `json:"created_at"`
	Message string    `json:"message"`
	Pushed  bool      `json:"pushed"`
	// Meta is what commit --meta was told.
	Meta map[string]json.RawMessage `json:"meta,omitempty"`
}

// Text is one line of the file log.
func (l *LogEntry) Text() string {
	mark := ""
	if !l.Pushed {
		mark = "  (not pushed)"
	}
	return fmt.Sprintf("%s  %s  %s  %s%s\n", l.ID.Short(), l.Time.UTC().Format("2006-01-02T15:04:05Z"), l.Author, oneLine(l.Message), mark)
}

// plural writes a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
