package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// The exit codes of design section 2.
func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"done, or nothing to do", nil, 0},
		{"difference or finding", outcome.New(outcome.Difference, "x", ""), 1},
		{"usage", usageError("x"), 2},
		{"internal", errors.New("x"), 3},
		{"no repository", outcome.New(outcome.NotFound, "x", ""), 10},
		{"file not there", fmt.Errorf("read: %w", os.ErrNotExist), 10},
		{"busy", fmt.Errorf("open: %w", syscall.EBUSY), 11},
		{"content refused", outcome.New(outcome.Refused, "x", ""), 12},
		{"branch moved on", outcome.New(outcome.Moved, "x", ""), 13},
		{"conflict in pull or merge", outcome.New(outcome.Conflict, "x", ""), 14},
		{"no permission", fmt.Errorf("open: %w", os.ErrPermission), 15},
		{"store unreachable", fmt.Errorf("get: %w", blobstore.ErrTemporary), 16},
		{"disk full", fmt.Errorf("write: %w", syscall.ENOSPC), 17},
		{"fenced by another writer", outcome.New(outcome.Fenced, "x", ""), 18},
		{"damaged data", fmt.Errorf("get: %w", blobstore.ErrCorrupt), 19},
		{"interrupted", fmt.Errorf("push: %w", context.Canceled), 130},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			if got := finish(&b, tc.err, false); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
			silent := tc.want <= 1
			if (b.Len() == 0) != silent {
				t.Errorf("printed %q", b.String())
			}
		})
	}
}

func TestErrorInWords(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"its own hint", outcome.New(outcome.NotFound, "no such branch: x", "list them with: tarn branch"),
			"tarn: no such branch: x\n  list them with: tarn branch\n"},
		{"the table's hint", outcome.Wrap(outcome.Full, "commit", syscall.ENOSPC, ""),
			"tarn: commit: no space left on device\n  free some space, then try again\n"},
		{"a hostile name", outcome.New(outcome.Refused, "table \"a\nb\x1b[2J\" is odd", "rename it"),
			"tarn: table \"a b\uFFFD[2J\" is odd\n  rename it\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			printError(&b, tc.err, false)
			if d := cmp.Diff(tc.want, b.String()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestErrorAsJSON(t *testing.T) {
	var b bytes.Buffer
	printError(&b, outcome.New(outcome.Moved, "main has moved on", "pull"), true)
	if want := `{"error":{"code":"moved","message":"main has moved on","hint":"pull"}}` + "\n"; b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

// What crosses a socket or pipe keeps its outcome, message and hint.
func TestErrorKeepsItsOutcome(t *testing.T) {
	for o, row := range outcome.Table {
		if o == outcome.Done {
			continue
		}
		err := describeError(outcome.New(o, "what", "next")).asError()
		if got := outcome.Of(err); got != o || err.Error() != "what" || outcome.Next(err) != "next" {
			t.Errorf("%s came back as %s: %v, %s", row.Name, got, err, outcome.Next(err))
		}
	}
	if got := outcome.Of((errorBody{Code: "from-the-future"}).asError()); got != outcome.Internal {
		t.Errorf("an unknown code became %s", got)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, tc := range []struct {
		args string
		want string // part of the message
	}{
		{"nonsense", "no such command: nonsense"},
		{"--nonsense", "unknown flag: --nonsense"},
		{"status --nonsense", "unknown flag: --nonsense"},
		{"status a b", `status: unexpected argument "b"`},
		{"version now", `version: unexpected argument "now"`},
		{"mount /data/x.lake", "mount needs URL MOUNTPOINT"},
		{"mount a b --links hard", `--links "hard" is neither`},
		{"mount a b --read-only --work c", "--read-only has no working folders"},
		{"mount a b -o work", "option -o work needs a value"},
		{"mount a b --work", "a value is missing after --work"},
		{"umount", "umount needs MOUNTPOINT"},
		{"reset --last --undo", "reset: --last drops and --undo brings back"},
		{"status -C x --repo y", "-C and --repo name two places"},
		{"status --log-level loud", `log level "loud"`},
		{"--log-format xml status", `log format "xml"`},
		{"completion tcsh", `not "tcsh"`},
		{"commit --message", "a value is missing after --message"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			h := newTestHost(t)
			stdout, stderr := h.run(t, outcome.Usage, strings.Fields(tc.args)...)
			lines := strings.Split(strings.TrimRight(stderr, "\n"), "\n")
			if !strings.Contains(lines[0], tc.want) || len(lines) != 2 || stdout != "" {
				t.Errorf("stdout %q, stderr %q: want nothing and two lines, the first with %q", stdout, stderr, tc.want)
			}
			_, stderr = h.run(t, outcome.Usage, append([]string{"--json"}, strings.Fields(tc.args)...)...)
			var doc errorDoc
			if err := json.Unmarshal([]byte(stderr), &doc); err != nil || doc.Error.Code != "usage" || !strings.Contains(doc.Error.Message, tc.want) {
				t.Errorf("with --json: %q (%v)", stderr, err)
			}
		})
	}
}
