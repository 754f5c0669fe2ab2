package work

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/outcome"
)

// StateRoot is the folder of all state: $XDG_STATE_HOME/tarn, else
// $HOME/.local/state/tarn, else /var/lib/tarn for root. A relative
// XDG_STATE_HOME does not count, as the XDG specification asks. It refuses a
// network or FUSE file system and makes nothing.
func StateRoot() (string, error) {
	var root string
	switch {
	case filepath.IsAbs(os.Getenv("XDG_STATE_HOME")):
		root = filepath.Join(os.Getenv("XDG_STATE_HOME"), "tarn")
	case filepath.IsAbs(os.Getenv("HOME")):
		root = filepath.Join(os.Getenv("HOME"), ".local", "state", "tarn")
	case os.Geteuid() == 0:
		root = "/var/lib/tarn"
	default:
		return "", outcome.New(outcome.Usage, "no place for working folders: neither XDG_STATE_HOME nor HOME is set",
			"set XDG_STATE_HOME to a folder on a local disk")
	}
	if err := checkLocal(root); err != nil {
		return "", err
	}
	return root, nil
}

// RepoDir is the state folder of one repository at one root URL, below
// StateRoot.
func RepoDir(repoID, rootURL string) (string, error) {
	root, err := StateRoot()
	if err != nil {
		return "", err
	}
	name, err := RepoName(repoID, rootURL)
	return filepath.Join(root, name), err
}

// RepoName names the state of one repository at one root URL: two copies of a
// repository share the id and must not share working folders.
func RepoName(repoID, rootURL string) (string, error) {
	clean, err := cleanRoot(rootURL)
	if err != nil {
		return "", fmt.Errorf("state folder of %s: %w", rootURL, err)
	}
	sum := sha256.Sum256([]byte(clean))
	return escapeName(repoID) + "-" + hex.EncodeToString(sum[:])[:12], nil
}

// WorkDir is the working folder of a branch below a RepoDir.
func WorkDir(repoDir, branch string) string {
	return filepath.Join(repoDir, "work", escapeName(branch))
}

// Branches lists the branches that have a working folder below a RepoDir.
func Branches(repoDir string) ([]string, error) {
	names, err := readNames(filepath.Join(repoDir, "work"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		if b, err := url.PathUnescape(n); err == nil && escapeName(b) == n {
			out = append(out, b)
		}
	}
	return out, nil
}

// cleanRoot makes one text of all spellings of a root: the real path of a
// folder, a URL without trailing or doubled slashes and without parameters,
// which say how a store is reached and not which it is.
func cleanRoot(root string) (string, error) {
	scheme, rest, isURL := strings.Cut(root, "://")
	if isURL && scheme != "file" {
		_, rest, _ = strings.Cut(blobstore.CleanURL(root), "://")
		host, p, _ := strings.Cut(rest, "/")
		return strings.ToLower(scheme) + "://" + host + strings.TrimSuffix(path.Clean("/"+p), "/"), nil
	}
	if isURL {
		root = rest
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return abs, ignoreMissing(err) // not made yet, or gone: its cleaned path is all there is
	}
	return real, nil
}

// escapeName makes one path component of any text, and is undone by
// url.PathUnescape: letters, digits, '-', '_' and inner dots stay.
func escapeName(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// remoteFS names the file systems on which flock, rename or fsync do not mean
// what a working folder needs, by the magic number of statfs.
var remoteFS = map[uint32]string{
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x65735546: "FUSE",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x01021997: "9P",
	0x0000564c: "NCP",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x786f4256: "VirtualBox shared folder",
	0xbacbacbc: "VMware shared folder",
}

// checkLocal refuses dir, or the nearest folder above it that exists, when it
// lies on a network or FUSE file system.
func checkLocal(dir string) error {
	if fault.AnyDisk() {
		return nil
	}
	for p := dir; ; p = filepath.Dir(p) {
		var st unix.Statfs_t
		err := unix.Statfs(p, &st)
		if errors.Is(err, unix.ENOENT) && p != filepath.Dir(p) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at the file system of %s: %w", p, err)
		}
		return refuseRemote(dir, uint32(st.Type))
	}
}

func refuseRemote(dir string, magic uint32) error {
	name, remote := remoteFS[magic]
	if !remote {
		return nil
	}
	return outcome.New(outcome.Refused, fmt.Sprintf("state folder %s is on a %s file system", dir, name),
		"set XDG_STATE_HOME to a folder on a local disk")
}
