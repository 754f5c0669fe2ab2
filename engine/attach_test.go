package engine

import "testing"

func TestAlias(t *testing.T) {
	for url, want := range map[string]string{
		"/data/towns.lake":    "towns",
		"/data/my lake":       "my_lake",
		"/data/2024.lake":     "_2024",
		"s3://bucket/a/b.v1/": "b",
		"/data/main":          "main_lake",
		"/data/.hidden":       "_hidden",
		"/":                   "__lake",
	} {
		if got := Alias(url); got != want {
			t.Errorf("Alias(%q) = %q, want %q", url, got, want)
		}
	}
}
