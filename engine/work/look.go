package work

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tarnfs/tarn/engine/outcome"
)

// CurrentDir finds the current generation of the working folder dir without
// opening it: nothing is locked, mended or written, so whoever has it open is
// not disturbed. A switch that is under way may make the answer stale.
func CurrentDir(dir string) (string, error) {
	f := &Folder{dir: dir}
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", outcome.Wrap(outcome.NotFound, dir+" is no working folder", err, "open the branch once, by a mount or tarn checkout")
		}
		return "", fmt.Errorf("look at working folder: %w", err)
	}
	if err := f.checkFormat(); err != nil {
		return "", fmt.Errorf("look at working folder %s: %w", dir, err)
	}
	n, err := f.readCurrent()
	if err != nil {
		return "", fmt.Errorf("look at working folder %s: %w", dir, err)
	}
	if n == 0 {
		return "", outcome.New(outcome.NotFound, dir+" has no generation yet", "open the branch once, by a mount or tarn checkout")
	}
	return f.genPath(n), nil
}

// FolderOf is the working folder that a file of one of its generations,
// gen/N/NAME, belongs to; "" for a file of none.
func FolderOf(path string) string {
	gen := filepath.Dir(filepath.Dir(path))
	dir := filepath.Dir(gen)
	if filepath.Base(gen) != "gen" {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err != nil {
		return ""
	}
	return dir
}

// Hold takes the lock of the working folder dir, and nothing else: what Open
// would mend stays as it is. ErrInUse when somebody has it open.
func Hold(dir, command string) (io.Closer, error) {
	f, err := lockFolder(dir, command)
	if err != nil {
		return nil, fmt.Errorf("hold working folder: %w", err)
	}
	return f, nil
}
