package worker

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/lake"
)

// A DuckDB that is kept serves the files of its folders, and no other; after an
// error that is not the file's it is not kept, and when idle it ends.
func TestWarm(t *testing.T) {
	ctx := context.Background()
	one, two := t.TempDir(), t.TempDir()
	put := func(dir, name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := &session{frames: make(chan frame)}
	defer s.cool()
	rows := func(path string, want int64) {
		t.Helper()
		got, err := s.sniff(ctx, limits{}, lake.SniffRequest{Path: path, Format: lake.CSV})
		if err != nil || got.Rows != want {
			t.Errorf("%s: %+v %v, want %d rows", filepath.Base(path), got, err, want)
		}
	}
	rows(put(one, "a.csv", "k\n1\n"), 1)
	first := s.warm.d
	rows(put(one, "b.csv", "k\n1\n2\n"), 2)
	rows(put(one, "a.csv", "k\n1\n2\n3\n"), 3) // the same name, other bytes
	if _, err := s.sniff(ctx, limits{}, lake.SniffRequest{Path: put(one, "bad.csv", "a,a\n1,2\n"), Format: lake.CSV}); err == nil {
		t.Error("a bad file: no error")
	}
	if s.warm == nil || s.warm.d != first {
		t.Error("not kept for files of one folder")
	}
	c := put(two, "c.csv", "k\n1\n")
	if err := first.exec(ctx, "SELECT * FROM read_csv("+text(c)+")"); err == nil {
		t.Error("it reads a file of another folder")
	}
	rows(c, 1)
	if _, err := s.sniff(ctx, limits{}, lake.SniffRequest{Path: filepath.Join(two, "gone.csv"), Format: lake.CSV}); err == nil || s.warm != nil {
		t.Errorf("after an error: %v, kept %v", err, s.warm != nil)
	}
	rows(c, 1)
	s.warm.till = time.Now()
	go func() { s.frames <- frame{kind: lake.FrameEnd} }()
	if f, ok := s.next(); !ok || f.kind != lake.FrameEnd {
		t.Errorf("next: %v %v", f, ok)
	}
}
