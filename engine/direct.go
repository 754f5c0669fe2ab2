package engine

import (
	"net/url"
	"strconv"
	"strings"
)

// How DuckDB reaches a store by itself. Keys are never written down: they come
// from where DuckDB finds them, the environment first.

// duckURL is a URL as DuckDB's extensions call it.
func duckURL(u string) string {
	if rest, ok := strings.CutPrefix(u, "azblob://"); ok {
		return "az://" + rest
	}
	return u
}

// withoutParameters is the root that a URL names.
func withoutParameters(u string) string {
	if root, _, ok := strings.Cut(u, "?"); ok && strings.Contains(root, "://") {
		return root
	}
	return u
}

// setupOf are the statements before ATTACH for the store at rawURL, with the
// parameters of the URL; none for a folder.
func setupOf(rawURL string) []string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil
	}
	switch u.Scheme {
	case "s3":
		return s3Setup(u)
	case "gs":
		return []string{"LOAD httpfs;\n"}
	case "http", "https":
		return []string{"LOAD httpfs;\n"}
	case "azblob":
		return []string{"LOAD azure;\n", "CREATE SECRET IF NOT EXISTS tarn_azure (TYPE azure, PROVIDER credential_chain, CHAIN 'env');\n"}
	}
	return nil
}

// s3Setup: DuckDB reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN and AWS_REGION when httpfs is loaded; where the store is
// stands in the URL.
func s3Setup(u *url.URL) []string {
	out := []string{"LOAD httpfs;\n"}
	set := func(name, value string) { out = append(out, "SET "+name+" = "+value+";\n") }
	q := u.Query()
	if r := q.Get("region"); r != "" {
		set("s3_region", quoteSQL(r))
	}
	pathStyle := false
	if e, err := url.Parse(q.Get("endpoint")); err == nil && e.Host != "" {
		set("s3_endpoint", quoteSQL(e.Host))
		set("s3_use_ssl", strconv.FormatBool(e.Scheme == "https"))
		pathStyle = true
	}
	if on, err := strconv.ParseBool(q.Get("use_path_style")); err == nil {
		pathStyle = on
	}
	if pathStyle {
		set("s3_url_style", "'path'")
	}
	return out
}
