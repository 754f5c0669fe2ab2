package integration

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOracleScript: the statements by which stock DuckDB showed RockLake's
// faults give, in a mounted working folder and in the version it is committed
// to, the rows that a DuckLake of DuckDB's own gives.
func TestOracleScript(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := sb.client(ctx, "oracle.py", sb.mnt, filepath.Join(sb.dir, "reference"))
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stderr.String(), sb.daemonLog())
	}
	want := []string{
		"a plain local DATA_PATH", "statistics rows", "filters on a Parquet table", "UPDATE and DELETE with WHERE",
		"bounds of a table are extended", "RENAME COLUMN keeps the old values", "INSERT after a rename",
		"CREATE VIEW leaves the lake usable", "AT (VERSION => n)", "ducklake_snapshots()", "re-attach without DATA_PATH",
		"projections and aggregates",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(out.String()), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
