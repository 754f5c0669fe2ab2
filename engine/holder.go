package engine

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
)

// holder is who has a catalog store open for writing. The store records it as
// one line, in the write that fences whoever held it before.
type holder struct {
	Host   string
	Folder string // working folder on that host
	Since  time.Time
	ID     string // of the working folder: two hosts may have one name
}

// holderHere is this working folder as a holder.
func holderHere(folder, id string, now time.Time) holder {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown host"
	}
	return holder{Host: host, Folder: folder, Since: now.UTC().Truncate(time.Second), ID: id}
}

const (
	holderMark  = " holder="
	holderSince = ", since "
)

// record is what the store keeps.
func (h holder) record() string { return h.String() + holderMark + h.ID }

// String is the holder for people.
func (h holder) String() string {
	return h.Host + ":" + h.Folder + holderSince + h.Since.Format(time.RFC3339)
}

// recordedHolder is the identity and the text of a recorded holder.
func recordedHolder(record string) (id, text string) {
	if i := strings.LastIndex(record, holderMark); i >= 0 {
		return record[i+len(holderMark):], oneLine(record[:i])
	}
	return "", oneLine(record)
}

// heldSince is since when a recorded holder holds the store. One that does not
// say holds it since a time that is after all others.
func heldSince(text string) time.Time {
	if i := strings.LastIndex(text, holderSince); i >= 0 {
		if t, err := time.Parse(time.RFC3339, text[i+len(holderSince):]); err == nil {
			return t
		}
	}
	return time.Unix(1<<40, 0)
}

// admit decides whether this folder may take the store from who holds it.
// before: this folder has worked with the store already.
func (s *shared) admit(before bool) func(string) error {
	return func(record string) error {
		id, text := recordedHolder(record)
		switch {
		case record == "", id == s.self.ID, s.took && (s.heldBefore.IsZero() || heldSince(text).Before(s.heldBefore)):
			return nil
		case before:
			return s.takenBy(text)
		}
		return outcome.New(outcome.Busy, "the ledger in "+storeText(s.place)+" is held by "+text,
			"end the mount there; if that host is gone for good, take over with --take-over: what was committed is here, what was not stays there")
	}
}

// takenBy is the refusal of a folder whose ledger another one has taken over.
func (s *shared) takenBy(text string) *outcome.Error {
	return outcome.Mark(outcome.Fenced, "the ledger of this working folder was taken over by "+text+"; what was not committed here is still in "+s.self.Folder,
		kv.ErrFenced, "go on there, or take it back: end the mount here and mount again with --take-over")
}

// held asks the store whether this folder still holds it: reading from a
// handle does not tell.
func (w *Work) held(ctx context.Context) error {
	if w.shared == nil {
		return nil
	}
	if lost := w.shared.lost.Load(); lost != nil {
		return lost
	}
	return w.fenced(ctx, w.ledger.SetNote(ctx, noteAsked, w.e.now().UTC().Format(time.RFC3339)))
}

// noteAsked names the ledger's note of when its holder last asked for it.
const noteAsked = "asked"

// fenced says in words that another folder has taken the ledger over.
func (w *Work) fenced(ctx context.Context, err error) error {
	if w.shared == nil || !errors.Is(err, kv.ErrFenced) {
		return err
	}
	text := "another host"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if r, rerr := kvopen.OpenReader(ctx, w.shared.place, nil); rerr == nil {
		if record, rerr := kvopen.Holder(ctx, r); rerr == nil {
			if id, t := recordedHolder(record); id != w.shared.self.ID && t != "" {
				text = t
			}
		}
		_ = r.Close() // it wrote nothing
	}
	w.shared.lost.CompareAndSwap(nil, w.shared.takenBy(text))
	return w.shared.lost.Load()
}

// lost is why this folder's ledger is another's, nil while it is not known to be.
func (w *Work) lost() error {
	if w.shared == nil || w.shared.lost.Load() == nil {
		return nil
	}
	return w.shared.lost.Load()
}

// release gives the store up when nothing here would be left behind: another
// host then needs no take-over. What fails here leaves us the holder.
func (w *Work) release() {
	if w.shared.kv == nil || w.lost() != nil || w.unsettled.Load() || w.plain != nil || w.baseTree() == nil || w.Tables() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if own, err := w.uncommitted(ctx); err != nil || own {
		return
	}
	if err := w.settled(); err != nil {
		w.log.WarnContext(ctx, "the catalog store is not given up", keyBranch, w.branch, keyErr, err)
		return
	}
	if err := w.shared.kv.Release(ctx); err != nil {
		w.log.WarnContext(ctx, "the catalog store is not given up", keyBranch, w.branch, keyErr, err)
	}
}
