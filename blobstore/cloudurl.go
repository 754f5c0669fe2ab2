package blobstore

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// cloudURL is the address of a store in a bucket:
//
//	scheme://BUCKET[/PREFIX][?PARAMETERS]
//
// Secrets have no place in it: user and password are refused, and so is a
// parameter that nobody knows. So a URL can be logged, kept in files and shown.
type cloudURL struct {
	scheme string
	bucket string
	prefix string // without slashes at its ends
	params url.Values
}

// parseCloudURL reads a store URL. Its errors show nothing of the query.
func parseCloudURL(raw string) (cloudURL, error) {
	scheme, _ := splitScheme(raw)
	bad := func(why string) (cloudURL, error) {
		return cloudURL{}, fmt.Errorf("%w: %s://: %s", ErrBadURL, scheme, why)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return bad("it is malformed; write special characters as %XX") // err would show the URL
	}
	c := cloudURL{scheme: scheme, bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	switch {
	case u.User != nil:
		return bad("it holds a user or a password: keys come from the environment or from files")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return bad("it has a #; write it as %23")
	case c.bucket == "":
		return bad("it names no bucket: " + scheme + "://BUCKET/PREFIX")
	}
	if c.params, err = url.ParseQuery(u.RawQuery); err != nil {
		return bad("its parameters are malformed")
	}
	for name, values := range c.params {
		if len(values) != 1 {
			return bad("parameter " + clipName(name) + " is there twice")
		}
	}
	if c.prefix != "" {
		if err := ValidKey(c.prefix); err != nil {
			return bad("its prefix cannot be the start of a key")
		}
	}
	return c, nil
}

// root is the URL without parameters: what people and other clients call it.
func (c cloudURL) root() string {
	root := url.URL{Scheme: c.scheme, Host: c.bucket}
	if c.prefix != "" {
		root.Path = "/" + c.prefix
	}
	return root.String()
}

// take removes a parameter and returns its value, or "".
func (c cloudURL) take(name string) string {
	v := c.params.Get(name)
	c.params.Del(name)
	return v
}

// takeBool is take for true and false; missing is what is said.
func (c cloudURL) takeBool(name string, missing bool) (bool, error) {
	v := c.take(name)
	if v == "" {
		return missing, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%w: parameter %s of %s is neither true nor false", ErrBadURL, name, c.root())
	}
	return b, nil
}

// noMore refuses what has not been taken and is not among known. A misspelt
// name would otherwise be a setting that is silently ignored.
func (c cloudURL) noMore(known ...string) error {
	for name := range c.params {
		found := false
		for _, k := range known {
			found = found || k == name
		}
		if !found {
			return fmt.Errorf("%w: %s has no parameter %s", ErrBadURL, c.scheme+"://", clipName(name))
		}
	}
	return nil
}

// clipName is the name of a parameter nobody knows, which may be a secret
// pasted in a wrong place.
func clipName(name string) string {
	for _, r := range name {
		plain := r == '_' || r == '-' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !plain || len(name) > 40 {
			return "of that name"
		}
	}
	return strconv.Quote(name)
}

// CleanURL is a store's URL as it may be shown and as stores are told apart
// by: without user, parameters and fragment, its scheme in lower case. A path
// is returned as it is.
func CleanURL(raw string) string {
	scheme, rest := splitScheme(raw)
	if scheme == "" || scheme == "mem" || scheme == "file" {
		return raw
	}
	rest = strings.TrimPrefix(rest, "//")
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	host, path, _ := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	return scheme + "://" + strings.TrimSuffix(host+"/"+strings.Trim(path, "/"), "/")
}
