package engine

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// How DuckDB and others reach a store by themselves. Keys are never written
// down: they come from where each program finds them, the environment first.

// storeAccess is what a program must be told about a store beside the URLs of
// its objects.
type storeAccess struct {
	extension string // of DuckDB
	token     bool   // a web server: it may want a token, which nobody finds in the environment
	azure     bool
	scope     string // objects below it are reached so
	endpoint  string // host and port; "": the provider's own
	plainHTTP bool   // no TLS at endpoint
	region    string
	pathStyle bool // bucket in the path, not in the host's name
}

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

// accessOf is how the store at rawURL, with the parameters of the URL, is
// reached; nil for a folder.
func accessOf(rawURL string) *storeAccess {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil
	}
	a := &storeAccess{extension: "httpfs", scope: strings.TrimRight(withoutParameters(rawURL), "/") + "/"}
	switch u.Scheme {
	case "s3":
		a.s3(u.Query())
	case "gs":
	case "http", "https":
		a.token = true
	case "azblob":
		a.extension, a.azure = "azure", true
	default:
		return nil
	}
	return a
}

// s3 reads where the store is; as the AWS clients do, from the environment when
// the URL does not say it.
func (a *storeAccess) s3(q url.Values) {
	first := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return ""
	}
	a.region = q.Get("region")
	at, err := url.Parse(first(q.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL")))
	if err == nil && at.Host != "" {
		a.endpoint, a.plainHTTP, a.pathStyle = at.Host, at.Scheme == "http", true
		a.region = first(a.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	}
	if on, err := strconv.ParseBool(q.Get("use_path_style")); err == nil {
		a.pathStyle = on
	}
}

// own says whether the store must be named: it is not found where DuckDB looks
// by itself.
func (a *storeAccess) own() bool { return a.endpoint != "" || a.region != "" || a.pathStyle }

func (a *storeAccess) urlStyle() string {
	if a.pathStyle {
		return "path"
	}
	return "vhost"
}

// statements go before ATTACH. DuckDB reads AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION when httpfs is loaded;
// the secret takes the keys from there, and holds for this repository alone, so
// that one session may attach several stores. Whoever has keys elsewhere makes
// a secret of that name first: it is not replaced.
func (a *storeAccess) statements(alias string) []string {
	out := []string{"LOAD " + a.extension + ";\n"}
	name := quoteName("tarn_" + alias)
	switch {
	case a.azure:
		out = append(out, "CREATE SECRET IF NOT EXISTS "+name+" (TYPE azure, PROVIDER credential_chain, CHAIN 'env');\n")
	case a.own():
		fields := []string{"TYPE s3", "SCOPE " + quoteSQL(a.scope)}
		for _, k := range []struct{ field, setting string }{
			{"KEY_ID", "s3_access_key_id"}, {"SECRET", "s3_secret_access_key"}, {"SESSION_TOKEN", "s3_session_token"},
		} {
			fields = append(fields, fmt.Sprintf("%s coalesce(current_setting('%s'), '')", k.field, k.setting))
		}
		fields = append(fields, a.where()...)
		out = append(out, "CREATE SECRET IF NOT EXISTS "+name+" ("+strings.Join(fields, ", ")+");\n")
	}
	return out
}

// where lists what the secret says of the store's place.
func (a *storeAccess) where() (out []string) {
	if a.region != "" {
		out = append(out, "REGION "+quoteSQL(a.region))
	}
	if a.endpoint != "" {
		out = append(out, "ENDPOINT "+quoteSQL(a.endpoint), "USE_SSL "+strconv.FormatBool(!a.plainHTTP))
	}
	return append(out, "URL_STYLE "+quoteSQL(a.urlStyle()))
}

// note is what must be done by hand, a line; "": nothing.
func (a *storeAccess) note() string {
	if !a.token {
		return ""
	}
	return "if the server wants a token, first: CREATE SECRET (TYPE http, SCOPE " + quoteSQL(a.scope) + ", BEARER_TOKEN '...')"
}

// dbt are the lines of a profile for dbt-duckdb, at the depth of an output.
func (a *storeAccess) dbt(alias string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "      extensions:\n        - %s\n", a.extension)
	line := func(name, value string) { fmt.Fprintf(&b, "          %s: %s\n", name, value) }
	env := func(name string) string { return `"{{ env_var('` + name + `', '') }}"` }
	switch {
	case a.azure:
		b.WriteString("      secrets:\n        - type: azure\n")
		line("name", pythonText("tarn_"+alias))
		line("provider", "credential_chain")
		line("chain", "env")
	case a.token:
		fmt.Fprintf(&b, "      # if the server wants a token:\n      # secrets:\n      #   - {type: http, scope: %s, bearer_token: %s}\n", pythonText(a.scope), env("TARN_TOKEN"))
	case a.own():
		b.WriteString("      secrets:\n        - type: s3\n")
		line("name", pythonText("tarn_"+alias))
		line("scope", pythonText(a.scope))
		line("key_id", env("AWS_ACCESS_KEY_ID"))
		line("secret", env("AWS_SECRET_ACCESS_KEY"))
		line("session_token", env("AWS_SESSION_TOKEN"))
		if a.region != "" {
			line("region", pythonText(a.region))
		}
		if a.endpoint != "" {
			line("endpoint", pythonText(a.endpoint))
			line("use_ssl", strconv.FormatBool(!a.plainHTTP))
		}
		line("url_style", a.urlStyle())
	}
	return b.String()
}

// polars is the argument storage_options, with its name; "": none is needed.
func (a *storeAccess) polars() string {
	if a.azure || a.token || !a.own() {
		return ""
	}
	options := []string{}
	set := func(name, value string) { options = append(options, pythonText(name)+": "+pythonText(value)) }
	if a.region != "" {
		set("aws_region", a.region)
	}
	if a.endpoint != "" {
		scheme := "https://"
		if a.plainHTTP {
			scheme = "http://"
			set("aws_allow_http", "true")
		}
		set("aws_endpoint_url", scheme+a.endpoint)
	}
	set("aws_virtual_hosted_style_request", strconv.FormatBool(!a.pathStyle))
	return "storage_options={" + strings.Join(options, ", ") + "}"
}
