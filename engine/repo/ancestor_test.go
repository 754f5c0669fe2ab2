package repo_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/repo"
)

func TestCommonAncestor(t *testing.T) {
	// Each line: a version, its parents; later lines are newer.
	versions := map[repo.ID]*repo.Version{}
	ids := map[string]repo.ID{"": ""}
	for i, line := range strings.Split("a\nb a\nc a\nd b\ne b c\nf c b\ng d e\nh f\nx\ny x", "\n") {
		names := strings.Fields(line)
		v := &repo.Version{ID: repo.NewID(), CreatedAt: time.UnixMilli(int64(i) * 1000), Number: int64(i)}
		for _, p := range names[1:] {
			v.Parents = append(v.Parents, ids[p])
		}
		ids[names[0]], versions[v.ID] = v.ID, v
	}
	read := func(_ context.Context, id repo.ID) (*repo.Version, error) {
		if v := versions[id]; v != nil {
			return v, nil
		}
		return nil, errors.New("no version " + string(id))
	}
	for _, c := range [][3]string{
		{"a", "a", "a"}, {"a", "d", "a"}, {"d", "c", "a"}, {"d", "e", "b"}, {"g", "e", "e"}, {"d", "h", "b"},
		{"e", "f", "c"}, // crossed: b and c are both common, c is newer
		{"g", "h", "c"}, {"y", "g", ""}, {"", "g", ""}, {"y", "x", "x"},
	} {
		for _, pair := range [][2]string{{c[0], c[1]}, {c[1], c[0]}} {
			got, err := repo.CommonAncestor(t.Context(), ids[pair[0]], ids[pair[1]], read)
			if err != nil || got != ids[c[2]] {
				t.Errorf("%q: %s, want %s %s (%v)", pair, got, c[2], ids[c[2]], err)
			}
		}
	}
	if _, err := repo.CommonAncestor(t.Context(), ids["a"], repo.NewID(), read); err == nil {
		t.Error("a version that is not there has an ancestor")
	}
}

func TestMergeEdits(t *testing.T) {
	d := func(text string) *repo.Dataset {
		t.Helper()
		d, err := repo.DecodeDataset([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, c := range map[string]struct {
		base, ours, theirs, want string
		conflicts                []string
	}{
		"nothing":           {`{}`, `{}`, `{"title":"t"}`, `{"title":"t"}`, nil},
		"two fields":        {`{"title":"a","homepage":"h"}`, `{"title":"b","homepage":"h"}`, `{"title":"a","homepage":"i"}`, `{"title":"b","homepage":"i"}`, nil},
		"the same":          {`{}`, `{"title":"b"}`, `{"title":"b"}`, `{"title":"b"}`, nil},
		"one field":         {`{}`, `{"title":"b"}`, `{"title":"c"}`, ``, []string{"title"}},
		"lists":             {`{"keywords":["a"]}`, `{"keywords":["a","b"]}`, `{"keywords":["c"]}`, ``, []string{"keywords"}},
		"unknown, removed":  {`{"x":1,"y":{"a":[1]}}`, `{"y":{"a":[1]}}`, `{"x":1,"y":{"a":[2]}}`, `{"y":{"a":[2]}}`, nil},
		"tables are theirs": {`{"tables":[]}`, `{"tables":[{"name":"o","schema":"main"}]}`, `{"tables":[{"name":"t","schema":"main"}]}`, `{"tables":[{"name":"t","schema":"main"}]}`, nil},
	} {
		got, conflicts, err := repo.MergeEdits(d(c.base), d(c.ours), d(c.theirs))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.conflicts, conflicts); diff != "" {
			t.Errorf("%s: conflicts %s", name, diff)
		}
		if len(c.conflicts) > 0 {
			continue
		}
		a, err := got.Encode()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b, err := d(c.want).Encode()
		if diff := cmp.Diff(string(b), string(a)); diff != "" || err != nil {
			t.Errorf("%s: %s %v", name, diff, err)
		}
	}
}
