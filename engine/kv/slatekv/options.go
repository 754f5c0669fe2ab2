//go:build slatedb

package slatekv

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"sort"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Options of OpenWriter and OpenReader. The zero value works.
type Options struct {
	// Owner is who opens for writing, for people: written beside the epoch, and
	// named when it fences somebody.
	Owner string
	// Admit is asked before anything is written, with the owner that is
	// recorded ("" for none). An error refuses the open: nothing is written and
	// nobody fenced. Nil admits all.
	Admit func(owner string) error
	// LongLived is for a writer that stays open: it compacts and collects the
	// store beside its work. A short command leaves that to others.
	LongLived bool
	// Settings are laid over SlateDB's own, by its names. Unknown ones are
	// refused.
	Settings map[string]any
	// Env are the variables that the object store may look at, as os.Environ
	// has them; nil: the process's own. Only those that start with AWS_, AZURE_
	// and GOOGLE_ are passed on.
	Env []string
	// Log receives what happens on the way; nil discards it.
	Log *slog.Logger
}

// target is where a store is and how it is reached.
type target struct {
	name    string         // for people: nothing after the "?"
	opts    map[string]any // for the library
	secrets []string       // must not be in any text
}

// parameters are what may follow the "?" of a URL, and what the library calls
// it. There is none for a secret: those are in the environment.
var parameters = map[string]map[string]string{
	"file": {},
	"s3":   {"endpoint": "aws_endpoint", "region": "aws_region", "anonymous": "aws_skip_signature", "use_path_style": pathStyle},
	"az":   {"endpoint": "azure_storage_endpoint", "storage_account": "azure_storage_account_name", "anonymous": "azure_skip_signature", "localemu": "azure_storage_use_emulator"},
	"gs":   {"endpoint": "google_base_url", "anonymous": "google_skip_signature"},
}

// pathStyle is said the other way round by the library.
const pathStyle = "aws_virtual_hosted_style_request"

// endpoints are the variables that name one, the winning one last.
var endpoints = map[string][]string{
	"s3": {"AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"},
	"az": {"AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"},
	"gs": {"GOOGLE_BASE_URL"},
}

// locate turns a URL into what the library is told.
func locate(u *url.URL, opts *Options) (*target, error) {
	known, ok := parameters[u.Scheme]
	if !ok {
		return nil, usage(fmt.Sprintf("SlateDB knows no %s:// stores", u.Scheme))
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	t := &target{name: "slatedb:" + clean.String(), opts: map[string]any{}}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, usage(t.name + ": what follows the ? cannot be read")
	}
	store := map[string]string{}
	for _, name := range sorted(query) {
		key, ok := known[name]
		if !ok {
			return nil, usage(fmt.Sprintf("%s: unknown parameter %s", t.name, name))
		}
		value := query.Get(name)
		if key == pathStyle {
			value = map[string]string{"true": "false", "false": "true"}[value]
		}
		store[key] = value
	}
	if u.Scheme == "file" {
		t.opts["dir"] = u.Path
		t.opts["long_lived"] = opts.LongLived
		t.opts["settings"] = opts.Settings
		return t, nil
	}
	env := t.environment(opts.Env)
	endpoint := query.Get("endpoint")
	for _, name := range endpoints[u.Scheme] {
		if query.Has("endpoint") {
			delete(env, name) // one of these would win over what was said
		} else if env[name] != "" {
			endpoint = env[name]
		}
	}
	t.opts["url"] = clean.String()
	t.opts["env"] = env
	t.opts["store"] = store
	t.opts["allow_http"] = strings.HasPrefix(strings.ToLower(endpoint), "http://")
	t.opts["long_lived"] = opts.LongLived
	t.opts["settings"] = opts.Settings
	return t, nil
}

// aliases are names that the clouds' other tools, and package blobstore's
// drivers, know and the library does not.
var aliases = map[string]string{
	"AZURE_STORAGE_ACCOUNT": "AZURE_STORAGE_ACCOUNT_NAME",
	"AZURE_STORAGE_KEY":     "AZURE_STORAGE_ACCOUNT_KEY",
}

// environment picks the clouds' variables. All others are left out: the
// library would take a bare TOKEN or REGION for a credential.
func (t *target) environment(environ []string) map[string]string {
	if environ == nil {
		environ = os.Environ()
	}
	env := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		for _, prefix := range []string{"AWS_", "AZURE_", "GOOGLE_"} {
			if strings.HasPrefix(name, prefix) && value != "" {
				env[name] = value
				if isSecret(name) && len(value) >= 4 {
					t.secrets = append(t.secrets, value)
				}
			}
		}
	}
	for name, known := range aliases {
		if env[known] == "" && env[name] != "" {
			env[known] = env[name]
		}
	}
	return env
}

func isSecret(name string) bool {
	for _, part := range []string{"SECRET", "TOKEN", "KEY", "SAS", "PASSWORD"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// with is the JSON of the options and some more.
func (t *target) with(more map[string]any) ([]byte, error) {
	all := maps.Clone(t.opts)
	maps.Copy(all, more)
	b, err := json.Marshal(all)
	if err != nil {
		return nil, usage(fmt.Sprintf("%s: settings: %v", t.name, err))
	}
	return b, nil
}

func usage(what string) error {
	return outcome.New(outcome.Usage, what, "see docs/catalog-stores.md")
}

func sorted(v url.Values) []string {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
