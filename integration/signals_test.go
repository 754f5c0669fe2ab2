package integration

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSignalsBreakNoNames: a caller whose signals change nothing (a timer, a
// child's end, a language's own scheduler) never sees EINTR from stat, which no
// program expects.
func TestSignalsBreakNoNames(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	sb.write(sb.work()+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(sb.work(), "touch .commit .push && cd .. && tarn tag v1")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Kill(os.Getpid(), unix.SIGURG) // Go ignores it, and restarts what can be
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	broken := 0
	for range 2000 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(sb.mnt, "tags/v1/version.json"), &st); err != nil {
			broken++
			t.Logf("stat: %v", err)
		}
		if broken > 3 {
			break
		}
	}
	if broken > 0 {
		t.Error("a signal broke stat")
	}
}
