package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

// setting is one thing that can be set by flag, environment or config.toml,
// in this order of strength.
type setting struct {
	Key  string // in config.toml
	Flag string // "" where only some commands have one
	Env  string
	Else string // value when nothing sets it
}

// settings in the order `tarn config` prints them. TARN_REPO is not among
// them: a repository is found, see discover.go.
var settings = []setting{
	{"author", "", "TARN_AUTHOR", ""},
	{"log_level", "log-level", "TARN_LOG_LEVEL", "warn"},
	{"log_format", "log-format", "TARN_LOG_FORMAT", "text"},
	{"cache_size", "cache-size", "TARN_CACHE_SIZE", "10G"},
	{"cache_min_free", "cache-min-free", "TARN_CACHE_MIN_FREE", ""},
	{"store", "store", "TARN_STORE", ""},
	{"token_file", "", envTokenFile, ""},
}

// envTokenFile names the file of the tokens of web stores, which are looked
// for by whoever opens one: blobstore, also in a process of its own.
const envTokenFile = "TARN_TOKEN_FILE"

// conf is the outcome of looking: what is in force, and where it comes from.
type conf struct {
	File   string // config.toml, whether it is there or not; "" without a home
	values map[string]configValue
}

type configValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"` // flag, environment, file or default
}

func (c conf) value(key string) string { return c.values[key].Value }

// readConfig looks everything up; flag gives the value of a flag, "" when it was not given.
func readConfig(h *host, flag func(name string) string) (conf, error) {
	c := conf{values: map[string]configValue{}}
	file := map[string]string{}
	if dir, err := h.configHome(); err == nil {
		c.File = filepath.Join(dir, "tarn", "config.toml")
		if file, err = readConfigFile(c.File); err != nil {
			return c, err
		}
	}
	for _, s := range settings {
		v := configValue{s.Key, s.Else, "default"}
		if x, ok := file[s.Key]; ok {
			v.Value, v.Source = x, "file"
		}
		if x := h.Getenv(s.Env); x != "" {
			v.Value, v.Source = x, "environment"
		}
		if s.Flag != "" {
			if x := flag(s.Flag); x != "" {
				v.Value, v.Source = x, "flag"
			}
		}
		c.values[s.Key] = v
	}
	return c, nil
}

// maxConfig bounds config.toml: a larger file is not one.
const maxConfig = 1 << 20

func readConfigFile(path string) (map[string]string, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	next := "mend or remove " + path
	if !st.Mode().IsRegular() || st.Size() > maxConfig {
		return nil, outcome.New(outcome.Usage, path+" is not a configuration file", next)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var f struct {
		Author    *string `toml:"author"`
		LogLevel  *string `toml:"log_level"`
		LogFormat *string `toml:"log_format"`
		CacheSize *string `toml:"cache_size"`
		CacheFree *string `toml:"cache_min_free"`
		Store     *string `toml:"store"`
		TokenFile *string `toml:"token_file"`
	}
	d := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, outcome.New(outcome.Usage, fmt.Sprintf("%s: %s", path, tomlFault(err)), next)
	}
	values := map[string]string{}
	for key, v := range map[string]*string{
		"author": f.Author, "log_level": f.LogLevel, "log_format": f.LogFormat, "cache_size": f.CacheSize, "cache_min_free": f.CacheFree,
		"store": f.Store, "token_file": f.TokenFile,
	} {
		if v != nil {
			values[key] = *v
		}
	}
	if v := values["token_file"]; v != "" && !filepath.IsAbs(v) {
		values["token_file"] = filepath.Join(filepath.Dir(path), v)
	}
	return values, nil
}

// tomlFault is err on one line, with the line of the file where it knows one.
func tomlFault(err error) string {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		row, _ := unknown.Errors[0].Position()
		return fmt.Sprintf("line %d: there is no setting %q", row, strings.Join(unknown.Errors[0].Key(), "."))
	}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		row, _ := de.Position()
		return fmt.Sprintf("line %d: %s", row, strings.TrimPrefix(de.Error(), "toml: "))
	}
	return strings.TrimPrefix(err.Error(), "toml: ")
}

func configCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:     "config",
		Usage:    "print the settings in force, and where each comes from",
		Category: catTool,
		Description: manual("A flag is stronger than the environment, the environment than config.toml in\n$XDG_CONFIG_HOME/tarn. Settings: author, log_level, log_format, cache_size, cache_min_free,\ntoken_file (of the tokens of web stores, beside config.toml or an absolute path),\nstore (where new working folders keep their ledger, see tarn help mount).",
			"tarn config --json"),
		Action: action(h, 0, 0, func(c *cli.Context, k *call) error { return runConfig(c.Context, k) }),
	}
}

// configDoc is what `tarn config` prints.
type configDoc struct {
	File     string        `json:"file"`
	Settings []configValue `json:"settings"`
}

func (d configDoc) Text() string {
	var b strings.Builder
	for _, v := range d.Settings {
		fmt.Fprintf(&b, "%s = %q  # %s\n", v.Key, v.Value, v.Source)
	}
	fmt.Fprintf(&b, "# file: %s\n", d.File)
	return b.String()
}

func runConfig(ctx context.Context, k *call) error {
	d := configDoc{File: k.File}
	for _, s := range settings {
		v := k.values[s.Key]
		if s.Key == "author" {
			v.Value = fallbackAuthor(ctx, k)
		}
		d.Settings = append(d.Settings, v)
	}
	return k.show(d)
}
