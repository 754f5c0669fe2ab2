package integration

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/tarnfs/tarn/engine/kv/sqlitekv" // registers the "sqlite" driver
)

// ledgers are the catalog stores of this user's working folders.
func (sb *sandbox) ledgers() []string {
	sb.t.Helper()
	list, err := filepath.Glob(filepath.Join(sb.home, "state", "tarn", "*", "work", "*", "gen", "*", "ledger.sqlite"))
	if err != nil || len(list) == 0 {
		sb.t.Fatalf("ledgers: %v, %v", list, err)
	}
	return list
}

// TestInspectBesideALiveMount: inspect, verify catalog and repair --dry-run
// beside a mount, by its daemon and by its ledger's path, from another process:
// no byte of the ledger, its -wal and its -shm changes, and the mount goes on
// committing. RockLake's inspect killed the server it looked at.
func TestInspectBesideALiveMount(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	sb.write(filepath.Join(sb.work(), "tables/main/t/a.csv"), "id\n1\n")
	sb.must(sb.work(), "touch .commit")
	ledger := sb.ledgers()[0]
	state := func(suffixes ...string) string {
		var b strings.Builder
		for _, suffix := range suffixes {
			text, err := os.ReadFile(ledger + suffix)
			if err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(ledger + suffix)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %x %v\n", suffix, sha256.Sum256(text), st.ModTime())
		}
		return b.String()
	}
	for i, where := range []string{
		// Past the daemon.
		"--catalog " + ledger, "--catalog sqlite:" + ledger, "--repo " + sb.repo, "--repo " + sb.repo + " --branch main",
		// By it: in -shm it notes itself what its own process reads.
		"", "-C " + sb.work(), "--catalog " + sb.work(), "-C " + sb.mnt + " --branch main",
	} {
		files := []string{"", "-wal", "-shm"}[:3-i/4]
		before := state(files...)
		var doc struct {
			Storage string
			Counts  struct {
				DataFiles int `json:"data_files"`
			}
		}
		out := sb.must(sb.work(), "tarn inspect snapshot --latest --format json "+where)
		if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Counts.DataFiles != 1 || strings.TrimPrefix(doc.Storage, "sqlite:") != ledger {
			t.Errorf("inspect %s: %s (%v)", where, out, err)
		}
		if out := sb.must(sb.work(), "tarn verify catalog "+where); !strings.Contains(out, "is whole") {
			t.Errorf("verify %s: %s", where, out)
		}
		if out := sb.must(sb.work(), "tarn repair --dry-run "+where); !strings.Contains(out, "needs no repair") {
			t.Errorf("repair %s: %s", where, out)
		}
		if diff := cmp.Diff(before, state(files...)); diff != "" {
			t.Fatalf("looking at %q wrote:\n%s", where, diff)
		}
	}
	sb.write(filepath.Join(sb.work(), "tables/main/t/b.csv"), "id\n2\n")
	sb.must(sb.work(), "touch .commit .push")
	sb.must(sb.dir, "tarn verify repo --repo "+sb.repo)
}

// TestRepairThroughAMount: a desync in the ledger of a mounted folder is found
// with exit code 1, is not repaired past the daemon, is by it, and the mount
// goes on.
func TestRepairThroughAMount(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	sb.write(filepath.Join(sb.work(), "tables/main/t/a.csv"), "id\n1\n")
	sb.must(sb.work(), "touch .commit")
	ledger := sb.ledgers()[0]
	db, err := sql.Open("sqlite", ledger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE kv SET value=x'01fe0000000000000000' WHERE key=x'fe03'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	exits := func(code int, dir, script, want string) {
		t.Helper()
		if r := sb.sh(dir, script); r.code != code || !strings.Contains(r.out, want) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", script, r.code, code, want, r.out)
		}
	}
	exits(1, sb.work(), "tarn verify catalog", "E001 next_file_id is 0, but rows use ids up to 0: it must be 1 (key fe03)")
	exits(1, sb.work(), "tarn repair --dry-run", "would set next_file_id (key fe03): 0 -> 1")
	exits(11, sb.dir, "tarn repair --apply --catalog "+ledger, "the catalog store is in use")
	exits(1, sb.work(), "tarn verify catalog", "E001")
	exits(0, sb.work(), "tarn repair --apply", "set next_file_id (key fe03): 0 -> 1")
	exits(0, sb.work(), "tarn verify catalog", "is whole")
	exits(0, sb.work(), "tarn inspect --key sys:tarn-audit:1", `"by":"Ann Example \u003cann@example.org\u003e"`)
	sb.write(filepath.Join(sb.work(), "tables/main/t/b.csv"), "id\n2\n")
	sb.must(sb.work(), "touch .commit .push")
}

// TestRepairOfACheckout: the same without a mount, by a folder's own path.
func TestRepairOfACheckout(t *testing.T) {
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	co := filepath.Join(sb.dir, "co")
	sb.must(sb.dir, "tarn checkout --repo "+sb.repo+" main "+co)
	sb.write(filepath.Join(co, "tables/main/t/a.csv"), "id\n1\n")
	sb.must(co, "tarn commit")
	if out := sb.must(co, "tarn inspect"); !strings.Contains(out, "Data files:           1\n") || !strings.Contains(out, "Versions:             1\n") {
		t.Errorf("inspect: %s", out)
	}
	sb.must(sb.dir, "tarn verify catalog --catalog "+co)
	db, err := sql.Open("sqlite", filepath.Join(co, ".tarn/work/gen/1/ledger.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DELETE FROM kv WHERE key=x'fe02'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out := sb.fails(co, "tarn status"); !strings.Contains(out, "tarn repair --dry-run --catalog ") {
		t.Errorf("a ledger that lost a counter: %s", out)
	}
	if r := sb.sh(co, "tarn repair"); r.code != 1 || !strings.Contains(r.out, "would set next_catalog_id (key fe02): missing or unreadable -> 2") {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	sb.must(co, "tarn repair --apply && tarn status && tarn verify catalog")
}
