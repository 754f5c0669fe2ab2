package mount

import (
	"fmt"
	"path/filepath"

	"github.com/tarnfs/tarn/engine/outcome"
)

// maxStale bounds how many dead mounts are taken off one folder.
const maxStale = 16

// clearStale takes away mounts of ours at dir whose daemon is dead: the
// kernel answers ENOTCONN there, and nobody can mount or even look until they
// are gone. Mounts of others are left alone. It returns how many it took.
func clearStale(dir string) (int, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return 0, fmt.Errorf("mount point %s: %w", dir, err)
	}
	// The folder itself cannot be resolved while it is dead; its parent can.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(parent, filepath.Base(abs))
	}
	for n := 0; n < maxStale; n++ {
		if _, err := statLimited(abs); !gone(err) {
			return n, nil
		}
		table, err := Table()
		if err != nil {
			return n, err
		}
		top, ok := topAt(table, abs)
		if !ok || !top.Ours() {
			return n, outcome.New(outcome.Busy, fmt.Sprintf("mount point %s is dead: the program that served it is gone", abs), "end it with: umount -l "+abs)
		}
		if err := unmountPoint(abs, true); err != nil {
			return n, outcome.Wrap(outcome.Busy, "end the dead mount at "+abs, err, "end it with: umount -l "+abs)
		}
	}
	return maxStale, outcome.New(outcome.Busy, "mount point "+abs+" stays dead", "end it with: umount -l "+abs)
}
