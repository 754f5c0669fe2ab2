package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/tarnfs/tarn/engine/outcome"
)

// home is the user's folder. A mount from fstab runs without HOME and must
// find the same state as the same user's shell, so the password file decides then.
func (h *host) home() (string, error) {
	if d := h.Getenv("HOME"); filepath.IsAbs(d) {
		return d, nil
	}
	u, err := user.Current()
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return "", outcome.New(outcome.NotFound, "there is no home folder: HOME is unset and this user has none", "set HOME, or XDG_STATE_HOME and XDG_CONFIG_HOME")
	}
	return u.HomeDir, nil
}

// xdg is $name when it is an absolute path (the standard says to ignore
// others), else below below home.
func (h *host) xdg(name, below string) (string, error) {
	if d := h.Getenv(name); filepath.IsAbs(d) {
		return filepath.Clean(d), nil
	}
	home, err := h.home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, below), nil
}

// stateHome holds what must survive: working folders and logs of mounts.
func (h *host) stateHome() (string, error) { return h.xdg("XDG_STATE_HOME", ".local/state") }

func (h *host) configHome() (string, error) { return h.xdg("XDG_CONFIG_HOME", ".config") }

// socketDir is where this user's mounts put their control sockets: it is made
// when it is missing, for this user alone.
func (h *host) socketDir() (string, error) {
	dir, err := h.socketDirName()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder of control sockets: %w", err)
	}
	// A folder that another user made could hold sockets that answer in our name.
	if err := ownFolder(dir); err != nil {
		return "", err
	}
	return dir, nil
}

func (h *host) socketDirName() (string, error) {
	if d := h.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "tarn"), nil
	}
	if os.Geteuid() == 0 {
		return "/run/tarn", nil
	}
	state, err := h.stateHome()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "tarn", "run"), nil
}

// socketDirs are the folders in which the socket of a mount owned by uid may
// be, likeliest first: this user's own, then where that user's would be.
func (h *host) socketDirs(uid uint32) []string {
	var dirs []string
	if d, err := h.socketDirName(); err == nil {
		dirs = append(dirs, d)
	}
	return append(dirs, fmt.Sprintf("/run/user/%d/tarn", uid), "/run/tarn")
}
