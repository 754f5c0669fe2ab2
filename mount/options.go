package mount

import (
	"bufio"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine/outcome"
)

// subtype makes findmnt and df -T say fuse.tarn; it is how Umount and the
// check for dead mounts know their own.
const subtype = "tarn"

const (
	// maxWrite is the largest read or write request. 1 MiB is what the kernel
	// allows by default; 128 KiB, go-fuse's default, costs eight times the
	// requests on a large Parquet scan.
	maxWrite = 1 << 20
	// maxBackground is how many read-aheads the kernel keeps in flight. The
	// default of 12 starves a scan that waits for a remote store.
	maxBackground = 64
	// maxInflight bounds the memory of requests that wait for a store.
	maxInflight = 256 << 20
)

// MountOptions says what to mount where. Root and Dir are required.
type MountOptions struct {
	// Root is the tree. A root can be mounted once.
	Root gofuse.InodeEmbedder
	// Dir is the mount point.
	Dir string
	// FsName is the source findmnt shows: the repository.
	FsName string
	// ReadOnly asks for a read-only superblock: the kernel itself then refuses
	// every change, also root's, and does not ask for attributes again before
	// each read.
	ReadOnly bool
	// AllowOther lets other users in.
	AllowOther bool
	// NoPassthrough keeps the kernel from reading local files directly.
	NoPassthrough bool
	// Negative is how long the kernel remembers names that are not there. A
	// node opts out by setting an entry timeout on its ENOENT.
	Negative time.Duration
	// Extra are further options, as -o takes them.
	Extra []string
	// Guard says what the mount point may not be.
	Guard Guard
	// Debug logs every request.
	Debug bool
	// Log is where the mount reports; nil means nowhere.
	Log *slog.Logger
}

func (o *MountOptions) logger() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// fuseOptions turns o into go-fuse's options, each with its reason.
func (o *MountOptions) fuseOptions(root bool) *gofuse.Options {
	log := o.logger()
	level := slog.LevelWarn
	if o.Debug {
		level = slog.LevelDebug
	}
	std := slog.NewLogLogger(log.Handler(), level)
	var zero time.Duration
	opts := &gofuse.Options{
		// Nothing is cached unless its node says so: go-fuse takes a node's 0
		// for "not said", so long timeouts are set per node, never here.
		EntryTimeout: &zero,
		AttrTimeout:  &zero,
		// Modes are ours and meant, also 0000.
		NullPermissions: true,
		Logger:          std,
	}
	if o.Negative > 0 {
		neg := o.Negative
		opts.NegativeTimeout = &neg
	}
	m := &opts.MountOptions
	m.Name = subtype
	m.FsName = o.FsName
	m.AllowOther = o.AllowOther
	m.MaxWrite = maxWrite
	m.MaxBackground = maxBackground
	m.MaxInflightRequestBytes = maxInflight
	m.Debug = o.Debug
	m.Logger = std
	// Extended attributes cost two round trips a file in ls -l, never cached.
	m.DisableXAttrs = true
	// READDIRPLUS only where a listing is followed by stat: plain ls stays
	// cheap in a folder of 100 000 files.
	m.ExtraCapabilities |= fuse.CAP_READDIRPLUS_AUTO
	// Generated files are read with direct I/O; some readers map them.
	m.ExtraCapabilities |= fuse.CAP_DIRECT_IO_ALLOW_MMAP
	if !o.ReadOnly {
		// Else each write is preceded by a request for security.capability.
		m.ExtraCapabilities |= fuse.CAP_HANDLE_KILLPRIV_V2
		// Else an open with O_TRUNC comes without it, and a file of the base
		// version is copied to be cut off at once.
		m.ExtraCapabilities |= fuse.CAP_ATOMIC_O_TRUNC
	}
	if o.NoPassthrough {
		m.DisabledCapabilities |= fuse.CAP_PASSTHROUGH
	}
	// File locks stay in the kernel (EnableLocks off): every client of
	// catalog/, the worker too, comes through this mount, so the kernel sees
	// them all; forwarding them by handle breaks POSIX's rule that a lock
	// belongs to a process.
	m.EnableLocks = false
	m.PanicHandler = func(v any) fuse.Status {
		log.Error("panic in a request", "panic", v, "stack", string(debug.Stack()))
		return fuse.EIO
	}
	// The kernel checks modes, so that --allow-other lets others read only.
	m.Options = append(m.Options, "default_permissions")
	m.Options = append(m.Options, sanitize(o.Extra)...)
	if root {
		// Strict: a silent fallback to fusermount3 would hide why it failed.
		m.DirectMountStrict = true
		m.DirectMountFlags = syscall.MS_NOSUID | syscall.MS_NODEV
		if o.ReadOnly {
			m.DirectMountFlags |= syscall.MS_RDONLY
		}
	} else if o.ReadOnly {
		m.Options = append(m.Options, "ro")
	}
	return opts
}

// sanitize drops options that are not for the kernel, or that we decide.
// auto_unmount would make fusermount3 stay as our child, and go-fuse wait for
// its end: the mount would never return.
func sanitize(extra []string) []string {
	var keep []string
	for _, group := range extra {
		for _, o := range strings.Split(group, ",") {
			o = strings.TrimSpace(o)
			switch {
			case o == "", o == "auto_unmount", o == "ro", o == "rw", o == "allow_other", o == "default_permissions",
				o == "defaults", o == "_netdev", o == "nofail", o == "auto", o == "noauto", o == "user", o == "nouser", o == "users",
				strings.HasPrefix(o, "x-"), strings.HasPrefix(o, "comment="),
				strings.HasPrefix(o, "fsname="), strings.HasPrefix(o, "subtype="), strings.HasPrefix(o, "max_read="):
			default:
				keep = append(keep, o)
			}
		}
	}
	return keep
}

// fuseConf is where fusermount3 reads whether users may let others in.
var fuseConf = "/etc/fuse.conf"

// checkAllowOther refuses early what fusermount3 would refuse in passing.
func checkAllowOther(root bool) error {
	if root {
		return nil
	}
	f, err := os.Open(fuseConf)
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if strings.TrimSpace(lines.Text()) == "user_allow_other" {
				return nil
			}
		}
	}
	return outcome.New(outcome.Permission,
		"other users may not be let in: "+fuseConf+" has no line user_allow_other",
		"ask root to add the line user_allow_other to "+fuseConf+", or mount without --allow-other")
}
