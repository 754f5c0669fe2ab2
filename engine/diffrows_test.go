package engine_test

import (
	"testing"
)

func TestDiffRows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id,name\n1,Aarau\n2,Brig\n2,Brig\n")
	drop(t, w, "main/same/a.csv", "x\n1\n")
	commit(t, w)
	drop(t, w, "main/towns/a.csv", "id,name\n1,Aarau\n3,\n3,\n3,\n")
	drop(t, w, "main/new.csv", "x\n7\n8\n9\n")
	commit(t, w)
	push(t, w)
	r, err := e.DiffWithRows(t.Context(), "main~1", "main", 2)
	if err != nil {
		t.Fatal(err)
	}
	_, got := r.Changes, ""
	for i := range r.Rows {
		got += r.Rows[i].Text()
	}
	want := `rows of main.new: x
  + 7
  + 8
  ... and more
rows of main.towns: id, name
  - 2 | Brig   (2 times)
  + 3 | NULL   (3 times)
`
	if got != want {
		t.Errorf("rows:\n%swant:\n%s", got, want)
	}
	back, err := e.DiffWithRows(t.Context(), "main", "main~1", 20)
	if err != nil || len(back.Rows) != 2 || len(back.Rows[0].Rows) != 3 || back.Rows[0].Rows[0].Op != "-" || back.Rows[0].More {
		t.Errorf("the other way: %+v %v", back, err)
	}
	if none, err := e.DiffWithRows(t.Context(), "main", "main", 20); err != nil || none.Text() != "" {
		t.Errorf("of nothing: %+v %v", none, err)
	}
}
