package outcome_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/outcome"
)

func TestOf(t *testing.T) {
	kind := errors.New("pkg: a kind")
	for _, tc := range []struct {
		err  error
		want outcome.Outcome
	}{
		{nil, outcome.Done},
		{errors.New("anything"), outcome.Internal},
		{fmt.Errorf("read: %w", fs.ErrNotExist), outcome.NotFound},
		{fmt.Errorf("put: %w", blobstore.ErrConflict), outcome.Moved},
		{fmt.Errorf("put: %w", blobstore.ErrExists), outcome.Conflict},
		{fmt.Errorf("get: %w", blobstore.ErrCorrupt), outcome.Damaged},
		{fmt.Errorf("get: %w", blobstore.ErrTemporary), outcome.Unreachable},
		{fmt.Errorf("open: %w", blobstore.ErrReadOnly), outcome.Permission},
		{fmt.Errorf("commit: %w", kv.ErrFenced), outcome.Fenced},
		{fmt.Errorf("write: %w", syscall.ENOSPC), outcome.Full},
		{fmt.Errorf("write: %w", syscall.EDQUOT), outcome.Full},
		{context.Canceled, outcome.Interrupted},
		{context.DeadlineExceeded, outcome.Unreachable},
		// What knows its outcome wins over what it was caused by.
		{fmt.Errorf("x: %w", outcome.Wrap(outcome.Refused, "y", syscall.ENOSPC, "")), outcome.Refused},
		{outcome.Mark(outcome.Busy, "y", kind, ""), outcome.Busy},
	} {
		if got := outcome.Of(tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}

func TestTable(t *testing.T) {
	exits, names := map[int]outcome.Outcome{}, map[string]outcome.Outcome{}
	for o, row := range outcome.Table {
		if was, ok := exits[row.Exit]; ok {
			t.Errorf("exit code %d is %v and %v", row.Exit, was, o)
		}
		if was, ok := names[row.Name]; ok {
			t.Errorf("name %s is %v and %v", row.Name, was, o)
		}
		exits[row.Exit], names[row.Name] = o, o
		if row.Mean == "" || o != outcome.Done && o != outcome.Difference && row.Hint == "" {
			t.Errorf("%v has no meaning or hint", o)
		}
		if o != outcome.Done && o.Exit() == 0 {
			t.Errorf("%v exits 0", o)
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var back outcome.Outcome
		if err := json.Unmarshal(text, &back); err != nil || back != o {
			t.Errorf("%s reads back as %v: %v", text, back, err)
		}
	}
	var unknown outcome.Outcome
	if err := json.Unmarshal([]byte(`"later"`), &unknown); err != nil || unknown != outcome.Internal {
		t.Errorf("an unknown name reads as %v: %v", unknown, err)
	}
}

// TestMessage: people read from the first Error on, without the layers around
// it and without a kind that says nothing more.
func TestMessage(t *testing.T) {
	kind := errors.New("pkg: a kind")
	err := fmt.Errorf("layer: %w", outcome.Mark(outcome.Busy, "the folder is in use", kind, "wait"))
	if got := outcome.Message(err); got != "the folder is in use" {
		t.Errorf("message %q", got)
	}
	if !errors.Is(err, kind) || outcome.Next(err) != "wait" {
		t.Error("the kind or the next step is lost")
	}
	if got := outcome.Message(outcome.Wrap(outcome.Full, "write x", syscall.ENOSPC, "")); got != "write x: no space left on device" {
		t.Errorf("message %q", got)
	}
	if got := outcome.Next(syscall.ENOSPC); got != outcome.Table[outcome.Full].Hint {
		t.Errorf("hint %q", got)
	}
}
