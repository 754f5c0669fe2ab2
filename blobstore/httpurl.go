package blobstore

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// webURL is the address of a store behind HTTP:
//
//	http[s]://HOST[:PORT][/PATH][?PARAMETERS]
//
//	insecure=BOOL   send the token over http:// to another machine, too;
//	                for a network that nobody else is on
//
// As in cloudURL, secrets have no place in it.
type webURL struct {
	cloudURL
	insecure bool
}

func parseWebURL(raw string) (webURL, error) {
	c, err := parseCloudURL(raw)
	if err != nil {
		return webURL{}, err
	}
	u := webURL{cloudURL: c}
	if u.insecure, err = c.takeBool("insecure", false); err != nil {
		return webURL{}, err
	}
	return u, c.noMore()
}

// object is the address of an object. Segments are escaped whole: a key may
// hold what URLs, servers and proxies take for their own.
func (u webURL) object(key string) string {
	path := key
	if u.prefix != "" {
		path = u.prefix + "/" + key
	}
	return u.scheme + "://" + u.bucket + escapePath(path)
}

// list is the address of the list of what starts with prefix.
func (u webURL) list(prefix string) string {
	at := "/"
	if u.prefix != "" {
		at = escapePath(u.prefix) + "/"
	}
	return u.scheme + "://" + u.bucket + at + "?list=" + url.QueryEscape(prefix)
}

func escapePath(path string) string {
	var b strings.Builder
	for seg := range strings.SplitSeq(path, "/") {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(seg))
	}
	return b.String()
}

// Where the token of a web store comes from. It is no parameter: URLs are
// logged, shown and kept.
const (
	envToken     = "TARN_TOKEN"
	envTokenFile = "TARN_TOKEN_FILE"
)

// maxTokenFile bounds the file of tokens in bytes; a larger one is none.
const maxTokenFile = 1 << 20

// tokens signs the requests to one store. Its zero value and nil sign nothing.
type tokens struct {
	token string
	clear string // why the token must not be sent; empty: it may
}

// tokenFor finds the token of a store: TARN_TOKEN, else the file that
// TARN_TOKEN_FILE names. A line of it is a token for every server, or
//
//	HOST[:PORT] TOKEN
//
// for one; the first that fits counts. Empty lines and those that start with #
// are skipped.
func tokenFor(u webURL) (*tokens, error) {
	token, from := strings.TrimSpace(os.Getenv(envToken)), envToken
	if path := os.Getenv(envTokenFile); token == "" && path != "" {
		from = path
		var err error
		if token, err = tokenIn(path, u.bucket); err != nil {
			return nil, err
		}
	}
	if token == "" {
		return nil, nil
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return nil, &fault{kind: ErrPermission, what: "the token of " + from + " holds a blank or a character that no token has", next: "write the token alone, on one line"}
		}
	}
	t := &tokens{token: token}
	if u.scheme == "http" && !u.insecure && !loopback(u.bucket) {
		t.clear = "a token would go to " + u.root() + " unencrypted"
	}
	return t, nil
}

func tokenIn(path, host string) (string, error) {
	st, err := os.Stat(path)
	if err == nil && (!st.Mode().IsRegular() || st.Size() > maxTokenFile) {
		return "", &fault{kind: ErrPermission, what: path + " is not a file of tokens", next: "set " + envTokenFile + " to a file with a token on a line"}
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", &fault{kind: ErrPermission, what: "cannot read the file of tokens: " + err.Error(), next: "set " + envTokenFile + " to a file that you can read"}
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) == 1:
			return words[0], nil
		case len(words) == 2 && strings.EqualFold(words[0], host):
			return words[1], nil
		case len(words) > 2:
			return "", &fault{kind: ErrPermission, what: path + " has a line of more than two words", next: "write HOST TOKEN, or the token alone"}
		}
	}
	return "", nil
}

// loopback reports whether nothing that is sent to a host leaves this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (t *tokens) sign(r *http.Request) error {
	switch {
	case t == nil:
		return nil
	case t.clear != "":
		return &fault{kind: ErrPermission, what: t.clear, next: "use https://, or add ?insecure=true where nobody listens"}
	}
	r.Header.Set("Authorization", "Bearer "+t.token)
	return nil
}

// odd is an answer that makes no sense.
func (s *web) odd(why string) error {
	return &fault{kind: ErrCorrupt, what: fmt.Sprintf("%s cannot be read from: %s", s.URL(), why),
		next: "serve the folder with a web server that sends files as they are, or with tarn serve"}
}
