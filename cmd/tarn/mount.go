package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

// mountOptions are the flags of tarn mount.
type mountOptions struct {
	URL, Point    string
	Work          string // mount the working folders here, not at POINT/work
	ReadOnly      bool
	Store         string // catalog store of the working folders; "": as they remember
	TakeOver      bool
	Links         string // symlinks or folders
	Foreground    bool
	AllowOther    bool
	AllowNonEmpty bool
	Mkdir         bool
	DebugFUSE     bool
	Extra         []string // -o, what is not ours
	LogFile       string
	PIDFile       string
	Cache         map[string]string // -o: limits of the cache, by setting
	ReadyFD       int               // in the background process: where to say that the mount answers
}

func mountCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "mount",
		Usage:     "show a repository as folders",
		ArgsUsage: "URL MOUNTPOINT",
		Category:  catRepository,
		Description: manual("Shows branches, tags and versions read-only under MOUNTPOINT, and the working folder of the\ndefault branch under MOUNTPOINT/work. The command returns when the mount answers; a background\nprocess goes on serving it until tarn umount, umount -R, SIGTERM or SIGINT.\nMOUNTPOINT is an empty folder that is there (or --mkdir).",
			"tarn mount /data/towns.lake /mnt/towns",
			outcome.NotFound, outcome.Busy, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Flags: append(cacheFlags(), []cli.Flag{
			&cli.StringFlag{Name: "work", Usage: "mount the working folders on `DIR` instead of MOUNTPOINT/work"},
			&cli.BoolFlag{Name: "read-only", Usage: "without working folders"},
			storeFlag(),
			takeOverFlag("the ledger of each branch that is opened"),
			&cli.StringFlag{Name: "links", Value: "symlinks", Usage: "show branches and tags as `KIND`: symlinks, or folders for Samba, Docker and backup tools"},
			&cli.BoolFlag{Name: "foreground", Aliases: []string{"f"}, Usage: "serve in this process; log on stderr"},
			&cli.BoolFlag{Name: "allow-other", Usage: "let other users in"},
			&cli.BoolFlag{Name: "allow-non-empty", Usage: "mount over a folder that holds something"},
			&cli.BoolFlag{Name: "mkdir", Usage: "make MOUNTPOINT when it is missing, with mode 0555"},
			&cli.StringSliceFlag{Name: "o", Usage: "`KEY=VALUE,...` as in fstab; may be repeated"},
			&cli.StringFlag{Name: "log-file", Usage: "log of the background process: `FILE` (default: in the state folder)"},
			&cli.StringFlag{Name: "pid-file", Usage: "write the process id of the mount to `FILE`"},
			&cli.BoolFlag{Name: "debug-fuse", Usage: "log each request of the kernel"},
			&cli.IntFlag{Name: "ready-fd", Hidden: true, Value: -1},
		}...),
		Action: action(h, 2, 2, func(c *cli.Context, k *call) error {
			o, err := readMountOptions(c, k)
			if err != nil {
				return err
			}
			return runMount(c.Context, k, o)
		}),
	}
}

func readMountOptions(c *cli.Context, k *call) (mountOptions, error) {
	o := mountOptions{
		URL: c.Args().Get(0), Point: c.Args().Get(1), Work: c.String("work"), ReadOnly: c.Bool("read-only"),
		Store: k.value("store"), TakeOver: c.Bool("take-over"),
		Links: c.String("links"), Foreground: c.Bool("foreground"), AllowOther: c.Bool("allow-other"),
		AllowNonEmpty: c.Bool("allow-non-empty"), Mkdir: c.Bool("mkdir"), DebugFUSE: c.Bool("debug-fuse"),
		LogFile: c.String("log-file"), PIDFile: c.String("pid-file"), ReadyFD: c.Int("ready-fd"),
	}
	for _, group := range c.StringSlice("o") {
		if err := o.addOptions(group); err != nil {
			return o, err
		}
	}
	return o, o.complete(k)
}

// runMount serves in this process when it is told to, else starts one that
// does and waits until the mount answers.
func runMount(ctx context.Context, k *call, o mountOptions) error {
	if o.Foreground {
		return runDaemon(ctx, k, o)
	}
	return spawn(ctx, k, o)
}

// complete checks the options and makes every path absolute: the background
// process runs in /.
func (o *mountOptions) complete(k *call) error {
	if o.Links != "symlinks" && o.Links != "folders" {
		return usageError("mount: --links %q is neither symlinks nor folders", o.Links)
	}
	if o.ReadOnly && o.Work != "" {
		return usageError("mount: --read-only has no working folders to put at --work %s", o.Work)
	}
	if o.ReadOnly && o.TakeOver {
		return usageError("mount: --read-only opens no working folder to --take-over")
	}
	var err error
	for key, v := range o.Cache {
		k.values[key] = configValue{key, v, "flag"}
	}
	if k.cache, err = k.cacheOptions(); err != nil {
		return err
	}
	if o.URL, err = k.absoluteURL(o.URL); err != nil {
		return err
	}
	if o.Store, err = k.absoluteStore(o.Store); err != nil {
		return err
	}
	for _, p := range []*string{&o.Point, &o.Work, &o.LogFile, &o.PIDFile} {
		if *p == "" {
			continue
		}
		if *p, err = k.absolute(*p); err != nil {
			return err
		}
	}
	return nil
}

// addOptions reads one -o group: comma-separated words as in fstab, "\," for
// a comma that belongs to a value. What is not ours goes to the kernel.
func (o *mountOptions) addOptions(group string) error {
	for _, word := range splitMountOptions(group) {
		key, value, hasValue := strings.Cut(word, "=")
		switch key = strings.ReplaceAll(key, "_", "-"); key {
		case "":
		case "ro", "read-only":
			o.ReadOnly = true
		case "rw":
			o.ReadOnly = false
		case "allow-other":
			o.AllowOther = true
		case "allow-non-empty":
			o.AllowNonEmpty = true
		case "mkdir", "x-mount.mkdir":
			o.Mkdir = true
		case "cache-size", "cache-min-free":
			if value == "" {
				return usageError("mount: option -o %s needs a value", key)
			}
			if o.Cache == nil {
				o.Cache = map[string]string{}
			}
			o.Cache[strings.ReplaceAll(key, "-", "_")] = value
		case "work", "links", "log-file", "pid-file":
			if !hasValue || value == "" {
				return usageError("mount: option -o %s needs a value", key)
			}
			*map[string]*string{"work": &o.Work, "links": &o.Links, "log-file": &o.LogFile, "pid-file": &o.PIDFile}[key] = value
		default:
			o.Extra = append(o.Extra, word)
		}
	}
	return nil
}

func splitMountOptions(group string) []string {
	var words []string
	var b strings.Builder
	for i := 0; i < len(group); i++ {
		switch {
		case group[i] == '\\' && i+1 < len(group) && (group[i+1] == ',' || group[i+1] == '\\'):
			i++
			b.WriteByte(group[i])
		case group[i] == ',':
			words = append(words, b.String())
			b.Reset()
		default:
			b.WriteByte(group[i])
		}
	}
	return append(words, b.String())
}

// args is the command line of the background process that does what o says.
func (o mountOptions) args(k *call) []string {
	args := []string{"mount", "--foreground", "--links", o.Links, "--ready-fd", strconv.Itoa(readyFD),
		"--log-level", daemonLogLevel(k), "--log-format", k.value("log_format")}
	for flag, on := range map[string]bool{
		"--read-only": o.ReadOnly, "--allow-other": o.AllowOther, "--allow-non-empty": o.AllowNonEmpty,
		"--mkdir": o.Mkdir, "--debug-fuse": o.DebugFUSE, "--take-over": o.TakeOver,
	} {
		if on {
			args = append(args, flag)
		}
	}
	if o.Work != "" {
		args = append(args, "--work", o.Work)
	}
	for _, s := range settings { // the environment and config.toml are read there as well
		if v := k.values[s.Key]; strings.HasPrefix(s.Flag, "cache-") && v.Source == "flag" {
			args = append(args, "--"+s.Flag, v.Value)
		}
	}
	if o.Store != "" {
		args = append(args, "--store", o.Store)
	}
	if o.PIDFile != "" {
		args = append(args, "--pid-file", o.PIDFile)
	}
	for _, x := range o.Extra {
		args = append(args, "-o", strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(x))
	}
	return append(args, "--", o.URL, o.Point)
}

// daemonLogLevel: a mount's log tells its life unless something else was asked for.
func daemonLogLevel(k *call) string {
	if v := k.values["log_level"]; v.Source != "default" {
		return v.Value
	}
	return "info"
}

// mountDoc is what tarn mount prints once the mount answers.
type mountDoc struct {
	URL      string   `json:"url"`
	Point    string   `json:"mountpoint"`
	Work     string   `json:"work,omitempty"` // where the working folders are
	ReadOnly bool     `json:"read_only"`
	Open     []string `json:"open,omitempty"` // branches with an open working folder
	PID      int      `json:"pid"`
	Notes    []string `json:"notes,omitempty"` // what is not pushed, and the like
}

// Text is the one line of success.
func (d mountDoc) Text() string {
	if d.ReadOnly {
		return fmt.Sprintf("%s mounted at %s (read-only)", d.URL, d.Point)
	}
	work := "work"
	if filepath.Dir(d.Work) != d.Point {
		work = d.Work
	}
	open := make([]string, len(d.Open))
	for i, b := range d.Open {
		open[i] = work + "/" + b + " open"
	}
	return fmt.Sprintf("%s mounted at %s (read-write; %s)", d.URL, d.Point, strings.Join(open, ", "))
}
