package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/outcome"
)

func cacheCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "cache",
		Usage:     "say what the cache of remote and rewritten files holds, or clear it",
		ArgsUsage: "[status|clear]",
		Category:  catTool,
		Description: manual("The cache is in $XDG_CACHE_HOME/tarn and shared by all mounts and commands of a user. It holds at most\ncache_size bytes and leaves cache_min_free bytes of the disk free; what was not used for longest goes first.\nclear removes what nobody uses at the moment; nothing in it is more than a copy.",
			"tarn cache clear",
			outcome.Permission),
		Flags:  cacheFlags(),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error { return runCache(k, c.Args().First()) }),
	}
}

// cacheFlags are those of commands that serve long enough to be given others.
func cacheFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "cache-size", Usage: "let the cache hold `SIZE`, such as 20G; 0: keep nothing [$TARN_CACHE_SIZE]"},
		&cli.StringFlag{Name: "cache-min-free", Usage: "leave `SIZE` of the cache's disk free [$TARN_CACHE_MIN_FREE]"},
	}
}

// cacheDoc is what tarn cache prints.
type cacheDoc struct {
	cache.Usage
	Cleared bool `json:"cleared,omitempty"`
}

// Text is the use in a few lines.
func (d cacheDoc) Text() string {
	var b strings.Builder
	if d.Cleared {
		b.WriteString("cleared the cache\n")
	}
	limit := "nothing is kept"
	if d.Limit >= 0 {
		limit = "limit " + sizeText(d.Limit)
	}
	fmt.Fprintf(&b, "%s: %s in %d blocks and %d files (%s; %s of the disk may be used)\n", d.Dir, sizeText(d.Bytes), d.Blocks, d.Files, limit, sizeText(max(0, d.Free)))
	if d.Locked > 0 {
		fmt.Fprintf(&b, "%d files are in use and stay\n", d.Locked)
	}
	return b.String()
}

func runCache(k *call, what string) error {
	dir, err := k.cacheHome()
	if err != nil {
		return err
	}
	c := cache.New(dir, &k.cache)
	defer c.Close()
	var d cacheDoc
	switch what {
	case "", "status":
		d.Usage, err = c.Usage()
	case "clear":
		d.Cleared = true
		d.Usage, err = c.Clear()
	default:
		return usageError("cache: %q is neither status nor clear", what)
	}
	if err != nil {
		return fmt.Errorf("cache folder %s: %w", dir, err)
	}
	return k.show(d)
}

// cacheHome is the cache folder.
func (h *host) cacheHome() (string, error) {
	base, err := h.xdg("XDG_CACHE_HOME", ".cache")
	return filepath.Join(base, "tarn"), err
}

// cacheOptions reads the limits of the cache. 0 is the default for the cache
// and "nothing" for people.
func (c conf) cacheOptions() (cache.Options, error) {
	var o cache.Options
	for key, to := range map[string]*int64{"cache_size": &o.Size, "cache_min_free": &o.MinFree} {
		text := c.value(key)
		if text == "" {
			continue
		}
		n, err := parseSize(text)
		if err != nil {
			return o, outcome.New(outcome.Usage, fmt.Sprintf("%s %q is not a size", key, text), "write it as 500M, 20G or a number of bytes")
		}
		if *to = n; n == 0 {
			*to = -1
		}
	}
	return o, nil
}

// sizeUnits are powers of 1024, as du -h counts.
const sizeUnits = "KMGTP"

func parseSize(s string) (int64, error) {
	s = strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B"), "I")
	unit := int64(1)
	if s != "" {
		if i := strings.IndexByte(sizeUnits, s[len(s)-1]); i >= 0 {
			unit, s = 1<<(10*(i+1)), s[:len(s)-1]
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (f < 0 || math.IsNaN(f) || f*float64(unit) > math.MaxInt64/2) {
		err = strconv.ErrRange
	}
	return int64(f * float64(unit)), err
}

func sizeText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(sizeUnits)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, sizeUnits[i])
}
