package kvopen_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
)

func TestParse(t *testing.T) {
	tests := []struct {
		text, file, slate string // file and slate empty: refused
		shared            bool
	}{
		{text: "catalog.db", file: "catalog.db"},
		{text: "/a/b:c?d#e", file: "/a/b:c?d#e"},
		{text: "./slatedb:x", file: "./slatedb:x"},
		{text: "sqlite:/a/b.db", file: "/a/b.db"},
		{text: "slatedb:file:///d/e", slate: "slatedb:file:///d/e", shared: true},
		{text: "slatedb:s3://bucket/a/b?endpoint=http://127.0.0.1:1", slate: "slatedb:s3://bucket/a/b", shared: true},
		{text: "slatedb:s3://bucket", slate: "slatedb:s3://bucket", shared: true},
		{text: "slatedb:az://container/a", slate: "slatedb:az://container/a", shared: true},
		{text: "slatedb:gs://bucket/a", slate: "slatedb:gs://bucket/a", shared: true},
		{text: ""},
		{text: "sqlite:"},
		{text: "slatedb:/d"},
		{text: "slatedb:file:///"},
		{text: "slatedb:file://host/d"},
		{text: "slatedb:s3:///prefix"},
		{text: "slatedb:ftp://host/d"},
		{text: "s3://bucket/prefix"},
		{text: "postgres:dbname=lake"},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			p, err := kvopen.Parse(test.text)
			if test.file == "" && test.slate == "" {
				if outcome.Of(err) != outcome.Usage || outcome.Next(err) == "" {
					t.Fatalf("got %v, %v, want a usage error with what to do", p, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.slate != "" && p.String() != test.slate || p.File != test.file || p.Shared() != test.shared {
				t.Fatalf("got %q, file %q, shared %v", p.String(), p.File, p.Shared())
			}
		})
	}
}

func TestNoSecretInErrors(t *testing.T) {
	const secret = "canary-7f3a"
	for _, text := range []string{
		"slatedb:s3://user:" + secret + "@bucket/p",
		"slatedb:s3://bucket/p?aws_secret_access_key=" + secret,
		"slatedb:ftp://user:" + secret + "@host/p?token=" + secret,
		"s3://user:" + secret + "@bucket",
		"slatedb:s3://%zz:" + secret + "@bucket?x=" + secret,
	} {
		if _, err := kvopen.OpenReader(t.Context(), text, nil); err == nil || strings.Contains(err.Error()+outcome.Next(err), secret) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestWithoutSlate(t *testing.T) {
	if kvopen.HasSlate {
		t.Skip("this test binary has SlateDB")
	}
	for name, open := range map[string]func() error{
		"reader": func() error { _, err := kvopen.OpenReader(t.Context(), "slatedb:s3://b/p", nil); return err },
		"writer": func() error { _, err := kvopen.OpenWriter(t.Context(), "slatedb:s3://b/p", nil); return err },
	} {
		err := open()
		if outcome.Of(err) != outcome.Usage || !strings.Contains(err.Error(), "slatedb:s3://b/p") || !strings.Contains(outcome.Next(err), "make slatedb") {
			t.Errorf("%s: got %v, next %q", name, err, outcome.Next(err))
		}
	}
}

// Holders runs on each kind of store this binary has.
func TestHolder(t *testing.T) {
	places := map[string]string{"sqlite": filepath.Join(t.TempDir(), "catalog.db")}
	if kvopen.HasSlate {
		places["slatedb"] = "slatedb:file://" + t.TempDir() + "/s"
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			holder := func(s kv.Getter) string {
				t.Helper()
				h, err := kvopen.Holder(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			var asked []string
			admit := func(h string) error { asked = append(asked, h); return nil }
			first, err := kvopen.OpenWriter(t.Context(), place, &kvopen.Options{Owner: "one", Admit: admit})
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()

			no := errors.New("held")
			_, err = kvopen.OpenWriter(t.Context(), place, &kvopen.Options{Owner: "two", Admit: func(h string) error { asked = append(asked, h); return no }})
			if !errors.Is(err, no) {
				t.Fatalf("got %v, want the refusal", err)
			}
			var b kv.Batch
			b.Put([]byte("a"), []byte("1"))
			if err := first.Commit(t.Context(), &b); err != nil {
				t.Fatalf("a refused open fenced the holder: %v", err)
			}
			if h := holder(first); h != "one" {
				t.Fatalf("got holder %q", h)
			}

			second, err := kvopen.OpenWriter(t.Context(), place, &kvopen.Options{Owner: "two", Admit: admit})
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			err = first.Release(t.Context())
			if !errors.Is(err, kv.ErrFenced) || !strings.Contains(err.Error(), "two") {
				t.Fatalf("release of a fenced one: got %v, want ErrFenced and the new holder's name", err)
			}
			r, err := kvopen.OpenReader(t.Context(), place, nil)
			if err != nil {
				t.Fatal(err)
			}
			if h := holder(second); h != "two" {
				t.Fatalf("got holder %q", h)
			}
			if err := second.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := second.Commit(t.Context(), &b); err != nil {
				t.Fatalf("after release: %v", err)
			}
			if h := holder(r); h != "" {
				t.Fatalf("got holder %q after release", h)
			}
			r.Close()
			second.Close()
			third, err := kvopen.OpenWriter(t.Context(), place, &kvopen.Options{Owner: "three", Admit: admit})
			if err != nil {
				t.Fatal(err)
			}
			third.Close()
			if got := strings.Join(asked, ","); got != ",one,one," {
				t.Fatalf("asked about %q", got)
			}
		})
	}
}
