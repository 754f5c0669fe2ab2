package kvopen

import (
	"net/url"
	"path"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Place is where a store is, taken apart but not looked at.
type Place struct {
	URL string // as it was given
	// File is the path of an SQLite store; empty for the others.
	File string
	// Slate is the URL behind "slatedb:"; nil for the others.
	Slate *url.URL
}

// Shared tells whether more than one machine may reach the store, so that a
// lock on this machine does not say who holds it.
func (p Place) Shared() bool { return p.Slate != nil }

// String is the URL without what it says after the "?", where a careless
// person may have put a secret.
func (p Place) String() string {
	if p.Slate == nil {
		return p.URL
	}
	u := *p.Slate
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return "slatedb:" + u.String()
}

// Parse takes a URL apart. Its errors are usage errors.
func Parse(text string) (Place, error) {
	scheme, rest, found := strings.Cut(text, ":")
	if !found || scheme == "" || strings.Contains(scheme, "/") {
		scheme, rest = "sqlite", text
	}
	switch scheme {
	case "sqlite":
		if rest == "" {
			return Place{}, usage("catalog store "+quote(text)+" names no file", "")
		}
		return Place{URL: text, File: rest}, nil
	case "slatedb":
		return parseSlate(text, rest)
	case "file", "s3", "az", "gs":
		return Place{}, usage("catalog store "+quote(strip(text))+" does not say which kind it is", "put slatedb: before it")
	}
	return Place{}, usage("catalog store "+quote(strip(text))+" has the unknown kind "+quote(scheme), "")
}

func parseSlate(text, rest string) (Place, error) {
	u, err := url.Parse(rest)
	if err != nil {
		// The error of url.Parse quotes the whole URL.
		return Place{}, usage("catalog store "+quote(strip(text))+" is no URL", "")
	}
	if u.User != nil {
		return Place{}, usage("catalog store slatedb:"+u.Scheme+"://"+u.Host+" has a user or password in it", "put credentials into the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_ACCOUNT_KEY, GOOGLE_APPLICATION_CREDENTIALS")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || !path.IsAbs(u.Path) || path.Clean(u.Path) == "/" {
			return Place{}, usage("catalog store "+quote(strip(text))+" names no folder", "write it with three slashes: slatedb:file:///folder")
		}
	case "s3", "az", "gs":
		if u.Host == "" {
			return Place{}, usage("catalog store "+quote(strip(text))+" names no bucket", "")
		}
	default:
		return Place{}, usage("catalog store "+quote(strip(text))+" is on an unknown kind of object store", "")
	}
	return Place{URL: text, Slate: u}, nil
}

func usage(what, next string) error {
	if next == "" {
		next = "a catalog store is PATH, sqlite:PATH, slatedb:file:///DIR, slatedb:s3://BUCKET/PREFIX, slatedb:az://CONTAINER/PREFIX or slatedb:gs://BUCKET/PREFIX"
	}
	return outcome.New(outcome.Usage, what, next)
}

func quote(s string) string { return `"` + s + `"` }

// strip cuts what may hold a secret off a text that is no URL we know.
func strip(text string) string {
	text, _, _ = strings.Cut(text, "?")
	if scheme, rest, ok := strings.Cut(text, "//"); ok {
		if _, host, ok := strings.Cut(rest, "@"); ok {
			rest = host
		}
		return scheme + "//" + rest
	}
	return text
}
