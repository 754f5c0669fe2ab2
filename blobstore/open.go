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
	// Log gets each call at level debug and each repetition at level warn;
	// nil: no log.
	Log *slog.Logger
	// Metrics counts what is asked of the store; nil: nobody counts.
	Metrics *Metrics
	// Patience is how long a store over the network is waited for.
	Patience Patience
	// Faults, when not nil, wraps the driver below every other wrapper: for
	// tests of what the wrappers make of its failures.
	Faults func(Store) Store
}

// Open opens the store at rawURL:
//
//	/a/path, a/path, file:///a/path   a folder (Local); links in its path are resolved
//	mem:, mem:NAME                    memory (Mem): a new one; one shared in this process by name
//	s3://BUCKET/PREFIX?PARAMETERS     S3 and what speaks it (openS3 lists the parameters)
//	gs://BUCKET/PREFIX                Google Cloud Storage (openGS)
//	azblob://CONTAINER/PREFIX         Azure Blob Storage (openAzure)
//	http[s]://HOST/PATH               any web server, to be read; tarn serve, also to be written (openWeb)
//
// Any other scheme is ErrUnsupported. Opening a store over the network asks it
// nothing: what is wrong with it shows at the first call. Errors show no more
// of a URL than its scheme, host and path: user, password and query may be
// secrets.
func Open(ctx context.Context, rawURL string, o *Options) (Store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := openDriver(ctx, rawURL, o)
	if err != nil {
		return nil, err
	}
	// Innermost first. The log and the counts show what the caller asked for;
	// repetitions and parts are below them.
	if o.Faults != nil {
		s = o.Faults(s)
	}
	_, network := As[networked](s)
	if network {
		s = Retrying(s, o.Patience, o.Log)
		s = Parallel(s)
	}
	if o.Metrics != nil {
		s = counted(s, o.Metrics, !network) // the transport counts the network's trips
	}
	if o.Log != nil {
		s = Logging(s, o.Log)
	}
	if o.ReadOnly {
		s = ReadOnly(s)
	}
	return s, nil
}

// networked is implemented by drivers whose calls go over a network.
type networked interface{ networked() }

func openDriver(ctx context.Context, rawURL string, o *Options) (Store, error) {
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
	case "s3", "gs", "azblob":
		return openCloud(ctx, rawURL, o)
	case "http", "https":
		w, err := openWeb(rawURL, newTransport(o.Patience, o.Metrics))
		if err != nil {
			return nil, err // not w: a nil *web is no nil Store
		}
		return w, nil
	}
	return nil, fmt.Errorf("%w: there is no kind of store called %q", ErrUnsupported, scheme)
}

// openCloud opens a bucket.
func openCloud(ctx context.Context, rawURL string, o *Options) (Store, error) {
	u, err := parseCloudURL(rawURL)
	if err != nil {
		return nil, err
	}
	transport := newTransport(o.Patience, o.Metrics)
	var b *bucket
	switch u.scheme {
	case "s3":
		b, err = openS3(ctx, u, transport)
	case "gs":
		b, err = openGS(ctx, u, transport)
	case "azblob":
		b, err = openAzure(ctx, u, transport)
	}
	if err != nil {
		return nil, err // not b: a nil *bucket is no nil Store
	}
	return b, nil
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
