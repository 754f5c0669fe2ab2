package blobstore

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// Options of Open. The zero value and nil open an existing store for writing,
// without a log.
type Options struct {
	// ReadOnly refuses every write with ErrReadOnly and changes nothing when
	// opening.
	ReadOnly bool
	// Create makes a folder that is not there. ReadOnly wins.
	Create bool
	// Log gets each call at level debug; nil: no log.
	Log *slog.Logger
}

// Open opens the store at rawURL:
//
//	/a/path, a/path, file:///a/path   a folder (Local); links in its path are resolved
//	mem:, mem:NAME                    memory (Mem): a new one; one shared in this process by name
//
// Any other scheme is ErrUnsupported. Errors show no more of a URL than its
// scheme and host: user, password and query may be secrets.
func Open(ctx context.Context, rawURL string, o *Options) (Store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := openDriver(rawURL, o)
	if err != nil {
		return nil, err
	}
	// Innermost first: the log shows what reached the driver.
	if o.Log != nil {
		s = Logging(s, o.Log)
	}
	if o.ReadOnly {
		s = ReadOnly(s)
	}
	return s, nil
}

func openDriver(rawURL string, o *Options) (Store, error) {
	scheme, rest := splitScheme(rawURL)
	switch scheme {
	case "":
		return openFolder(rawURL, o)
	case "file":
		dir, err := filePath(rawURL)
		if err != nil {
			return nil, err
		}
		return openFolder(dir, o)
	case "mem":
		return sharedMem(strings.TrimPrefix(rest, "//")), nil
	case "s3", "gs", "azblob", "http", "https":
		return nil, fmt.Errorf("%w: %s:// (this build opens folders and mem: only)", ErrUnsupported, scheme)
	}
	return nil, fmt.Errorf("%w: there is no kind of store called %q", ErrUnsupported, scheme)
}

// openFolder returns a Store that is nil, not a nil *Local, on error.
func openFolder(dir string, o *Options) (Store, error) {
	var l *Local
	var err error
	switch {
	case dir == "":
		return nil, fmt.Errorf("open folder: %w: the path is empty", ErrNotExist)
	case o.ReadOnly:
		l, err = openLocal(dir)
	case o.Create:
		l, err = CreateLocal(dir)
	default:
		l, err = OpenLocal(dir)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// splitScheme tells a URL from a path. Only "x://", "file:" and "mem:" are
// URLs: a folder may be called "a:b".
func splitScheme(raw string) (scheme, rest string) {
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok || scheme == "" {
		return "", raw
	}
	for i, c := range []byte(strings.ToLower(scheme)) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(c))) {
			return "", raw
		}
	}
	scheme = strings.ToLower(scheme)
	if scheme == "mem" || scheme == "file" || strings.HasPrefix(rest, "//") {
		return scheme, rest
	}
	return "", raw
}

// filePath is the path that a file URL names: file:///abs or file:/abs.
func filePath(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: the file URL is malformed", ErrUnsupported)
	case u.Host != "" && u.Host != "localhost", u.User != nil:
		return "", fmt.Errorf("%w: a file URL names a folder of this machine: file:///path", ErrUnsupported)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%w: a file URL has no ? and #; write them as %%3F and %%23, or give the plain path", ErrUnsupported)
	case !strings.HasPrefix(u.Path, "/"):
		return "", fmt.Errorf("%w: a file URL has an absolute path: file:///path", ErrUnsupported)
	}
	return u.Path, nil
}
