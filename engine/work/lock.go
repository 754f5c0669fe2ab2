package work

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
)

// lockFolder takes the folder's flock, or says who has it. The kernel drops
// it with the process, so a crash leaves nothing to clean.
//
// The file's text is "<pid> <command>\n", written by the holder for the one
// that is refused; it decides nothing.
func lockFolder(dir, command string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = inUse(dir, f)
	}
	if err == nil {
		err = writeHolder(f, command)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unlockFolder gives the lock up. Closing alone is not enough: a child that is
// between its fork and its exec still has the descriptor.
func unlockFolder(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

func writeHolder(f *os.File, command string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(fmt.Sprintf("%d %s\n", os.Getpid(), command)), 0)
	return err
}

func inUse(dir string, f *os.File) error {
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		text = nil
	}
	pid, command, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	holder := "another process"
	if pid != "" {
		holder = strings.TrimSpace(command + " (pid " + pid + ")")
	}
	return outcome.Mark(outcome.Busy, fmt.Sprintf("working folder %s is in use by %s", dir, holder), ErrInUse,
		"end that process, or run the command on its mount")
}
