package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/outcome"
)

func writeConfig(t *testing.T, h *testHost, text string) {
	t.Helper()
	dir := filepath.Join(h.env["XDG_CONFIG_HOME"], "tarn")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfigPrecedence(t *testing.T) {
	h := newTestHost(t)
	read := func(args ...string) map[string]configValue {
		t.Helper()
		out, _ := h.run(t, outcome.Done, append([]string{"config", "--json"}, args...)...)
		var d configDoc
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatal(err)
		}
		m := map[string]configValue{}
		for _, v := range d.Settings {
			m[v.Key] = v
		}
		return m
	}
	check := func(got configValue, value, source string) {
		t.Helper()
		if got.Value != value || got.Source != source {
			t.Errorf("%s is %q from %s, want %q from %s", got.Key, got.Value, got.Source, value, source)
		}
	}
	check(read()["log_level"], "warn", "default")
	writeConfig(t, h, "author = \"Ann <a@x>\"\nlog_level = \"info\"\n")
	check(read()["log_level"], "info", "file")
	check(read()["author"], "Ann <a@x>", "file")
	h.env["TARN_LOG_LEVEL"] = "error"
	check(read()["log_level"], "error", "environment")
	check(read("--log-level", "debug")["log_level"], "debug", "flag")
}

func TestConfigRefused(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown setting", "author = \"x\"\nlog_levle = \"info\"\n", `line 2: there is no setting "log_levle"`},
		{"not TOML", "author = \"x\n", "line 1: "},
		{"wrong type", "\n\nauthor = 3\n", "line 3: "},
		{"wrong value", "log_level = \"loud\"\n", `log level "loud"`},
		{"too large", strings.Repeat("#", maxConfig+1), "is not a configuration file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newTestHost(t)
			writeConfig(t, h, tc.text)
			_, stderr := h.run(t, outcome.Usage, "status")
			if !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 2 {
				t.Errorf("stderr %q, want two lines with %q", stderr, tc.want)
			}
		})
	}
}

// TestConfigTokenFile: the file of tokens that config.toml names is the one
// that stores look for, unless the environment names another.
func TestConfigTokenFile(t *testing.T) {
	h := newTestHost(t)
	t.Setenv("TARN_TOKEN_FILE", "")
	writeConfig(t, h, "token_file = \"tokens\"\n")
	want := filepath.Join(h.env["XDG_CONFIG_HOME"], "tarn", "tokens")
	out, _ := h.run(t, outcome.Done, "config")
	if !strings.Contains(out, "token_file = \""+want+"\"  # file\n") || os.Getenv("TARN_TOKEN_FILE") != want {
		t.Errorf("stores look for %q:\n%s", os.Getenv("TARN_TOKEN_FILE"), out)
	}
	t.Setenv("TARN_TOKEN_FILE", "")
	h.env["TARN_TOKEN_FILE"] = "/other"
	if out, _ := h.run(t, outcome.Done, "config"); !strings.Contains(out, "token_file = \"/other\"  # environment\n") || os.Getenv("TARN_TOKEN_FILE") != "" {
		t.Errorf("with the environment's:\n%s", out)
	}
}
