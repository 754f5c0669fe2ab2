package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/work"
)

// What a text file holds is found out once for the same bytes, wherever they
// lie: by status in staging/, by the commit in pending/.
func TestSniffedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) *work.Change {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return &work.Change{Kind: work.Put, Name: name, Path: "tables/main/t/" + name, Real: path}
	}
	worker := lake.NewClient(nil)
	defer worker.Close()
	e := &Engine{worker: worker}
	first, err := e.readSource(t.Context(), put("a.csv", "id\n1\n2\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	e.worker = lake.NewClient(&lake.ClientOptions{Command: []string{"/bin/false"}}) // whoever asks it gets no answer
	defer e.worker.Close()
	again, err := e.readSource(t.Context(), put("b.csv", "id\n1\n2\n"), true)
	if err != nil {
		t.Fatal("the same bytes were looked at again:", err)
	}
	if again.Rows != 2 || len(again.Columns) != 1 || again.Columns[0].Type != first.Columns[0].Type {
		t.Errorf("got %+v, want what %+v has", again.Source, first.Source)
	}
	for _, other := range []*work.Change{put("c.csv", "id\n1\n3\n"), put("b.json", "{\"id\":1}\n")} {
		if _, err := e.readSource(t.Context(), other, true); err == nil {
			t.Errorf("%s: nobody looked at other bytes", other.Name)
		}
	}
}
