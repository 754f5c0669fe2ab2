package repo_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/repo"
)

func TestParseID(t *testing.T) {
	const canonical = "019a7c1e-4f3b-7000-8000-0123456789ab"
	for _, in := range []string{canonical, "019A7C1E-4F3B-7000-8000-0123456789AB", "019a7C1e-4f3b-7000-8000-0123456789aB"} {
		if id, err := repo.ParseID(in); err != nil || id != canonical {
			t.Errorf("%s: %q, %v", in, id, err)
		}
	}
	// Any UUID, not only version 7.
	for _, in := range []string{"f47ac10b-58cc-4372-a567-0e02b2c3d479", "00000000-0000-0000-0000-000000000000"} {
		if id, err := repo.ParseID(in); err != nil || string(id) != in {
			t.Errorf("%s: %q, %v", in, id, err)
		}
	}
	for _, in := range []string{
		"", "main", canonical[:35], canonical + "0", "019a7c1e4f3b700080000123456789ab",
		"{" + canonical + "}", "urn:uuid:" + canonical, canonical + "\n", "019a7c1e-4f3b-7000-8000-0123456789ag",
		"019a7c1e-4f3b-7000-80000-123456789ab", "../../../../../etc/passwd/0123456789", "019a7c1e-4f3b-7000-8000-0123456789\xff\xff",
	} {
		if id, err := repo.ParseID(in); !errors.Is(err, repo.ErrBadID) {
			t.Errorf("%q: %q, %v", in, id, err)
		}
	}
}

func TestNewIDGrows(t *testing.T) {
	var ids []repo.ID
	for range 10000 {
		id := repo.NewID()
		if back, err := repo.ParseID(string(id)); err != nil || back != id || id[14] != '7' {
			t.Fatalf("%s: %v", id, err)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 10000 {
		t.Fatal("IDs do not grow")
	}
}

func TestShortUnique(t *testing.T) {
	ids := []repo.ID{
		"019a7c1e-4f3b-7000-8000-000000000001",
		"019a7c1e-4f3c-7000-8000-000000000001",
		"019a7c1e-4f3c-7001-8000-000000000001",
		"019a7c1e-4f3c-7001-8000-000000000002",
		"019a7c1e-4f3b-7000-8000-000000000001", // again
	}
	want := map[repo.ID]string{
		ids[0]: "019a7c1e-4f3b",
		ids[1]: "019a7c1e-4f3c-7000",
		ids[2]: string(ids[2]),
		ids[3]: string(ids[3]),
	}
	if diff := cmp.Diff(want, repo.ShortUnique(ids)); diff != "" {
		t.Fatal(diff)
	}
	if got := repo.ShortUnique(nil); len(got) != 0 {
		t.Fatal(got)
	}
}
