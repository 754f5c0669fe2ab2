package repo_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

func TestFormatDefaultsAndUnknownFields(t *testing.T) {
	f, err := repo.DecodeFormat([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &repo.Format{FormatVersion: 1, DataDir: "data/", GracePeriod: 168 * time.Hour}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
	f, err = repo.DecodeFormat([]byte(`{"theirs": {"b": [1], "a": 1.50}, "format_version": null, "data_dir": "d/e/", "grace_period": "90m", "retain_versions": 12,
		"repository_id": "6BA7B810-9DAD-41D1-80B4-00C04FD430C8", "created_at": "2026-10-12T16:03:05.5+02:00"}`))
	if err != nil {
		t.Fatal(err)
	}
	data, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "fdl-other-tool.json", data)
}

func TestFormatRefuses(t *testing.T) {
	for in, words := range map[string]string{
		`[]`:                                          "fdl.json line 1: '[' instead of an object",
		`{"format_version": 0}`:                       "0 is not a format version",
		`{"format_version": -1}`:                      "-1 is negative",
		`{"format_version": "1"}`:                     "format_version: a string instead of a number",
		`{"repository_id": "x"}`:                      `repository_id: "x" is not a version ID`,
		`{"grace_period": "1 week"}`:                  `grace_period: "1 week" is not a length of time`,
		`{"grace_period": "-1h"}`:                     "is not a length of time",
		`{"created_at": "yesterday"}`:                 "is not a time as in RFC 3339",
		`{"data_dir": 1}`:                             "data_dir: '1' instead of a string",
		`{"data_dir": "a/", "data_dir": "a/"}`:        `key "data_dir" comes twice`,
		`{} {}`:                                       "after the end",
		`{"x": "` + strings.Repeat("x", 1<<20) + `"}`: "it is larger than 1048576 bytes",
	} {
		_, err := repo.DecodeFormat([]byte(in))
		if !errors.Is(err, repo.ErrMalformed) || !strings.Contains(err.Error(), words) {
			t.Errorf("%.60s: %v, want %q", in, err, words)
		}
	}
	for _, in := range []string{`{"format_version": 2}`, `{"data_dir": [], "format_version": 99}`} {
		_, err := repo.DecodeFormat([]byte(in))
		wantError(t, err, repo.ErrLaterFormat, outcome.Refused, "format_version")
	}
}

func TestDataDir(t *testing.T) {
	for dir, good := range map[string]bool{
		"data/": true, "d/": true, "a/b/c/": true, "größe/": true, "data.d/": true, "fdl/": true,
		"": false, "/": false, "data": false, "/data/": false, "../data/": false, "a/../b/": false, "a/..": false, "./": false, "a/./b/": false,
		"a//": false, "a//b/": false, "//": false, "a\\b/": false, "a\x00/": false, "a\n/": false, "a\xff/": false,
		"refs/": false, "versions/": false, "versions/x/": false, "HEAD/": false, "fdl.json/": false, ".tarn-tmp/": false, "s3://b/": false,
		strings.Repeat("x", 300) + "/": false,
	} {
		_, err := (&repo.Format{FormatVersion: 1, DataDir: dir}).Encode()
		if (err == nil) != good {
			t.Errorf("%q: %v", dir, err)
		}
		if strings.ContainsAny(dir, "\x00\n\\") || !utf8.ValidString(dir) {
			continue // cannot be written into the text below as it is
		}
		_, err = repo.DecodeFormat([]byte(`{"data_dir": "` + dir + `"}`))
		if (err == nil) != good {
			t.Errorf("reading %q: %v", dir, err)
		}
	}
}

// FuzzFormat: what is taken can be written and is then a fixed point.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{`{}`, `{"format_version": 1, "data_dir": "data/", "x": [1]}`, `{"format_version": 3}`, `{"grace_period": "1h"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		format, err := repo.DecodeFormat(data)
		if err != nil {
			if !errors.Is(err, repo.ErrMalformed) && !errors.Is(err, repo.ErrLaterFormat) || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Fatalf("%q", err)
			}
			return
		}
		if !strings.HasSuffix(format.DataDir, "/") || strings.HasPrefix(format.DataDir, "/") || strings.Contains("/"+format.DataDir, "/../") {
			t.Fatalf("data_dir %q", format.DataDir)
		}
		fixedPoint(t, format.Encode, func(data []byte) (func() ([]byte, error), error) {
			format, err := repo.DecodeFormat(data)
			if err != nil {
				return nil, err
			}
			return format.Encode, nil
		})
	})
}

// fixedPoint: what was written reads back, and is written the same again.
func fixedPoint(t testing.TB, encode func() ([]byte, error), decode func([]byte) (func() ([]byte, error), error)) {
	t.Helper()
	first, err := encode()
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	again, err := decode(first)
	if err != nil {
		t.Fatalf("what was written cannot be read: %v\n%s", err, first)
	}
	second, err := again()
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("written again it differs: %v\n%s\n%s", err, first, second)
	}
}
