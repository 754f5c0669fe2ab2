package lake_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/laketest"
)

func describe(t testing.TB, d *laketest.Desk, snapshot int64) *lake.Content {
	t.Helper()
	c, err := lake.Describe(context.Background(), d.Begin(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The twenty steps of a session, as the catalog tells them afterwards.
func TestDescribeEverySnapshot(t *testing.T) {
	d := laketest.Load(t, "testdata/steps/20-msg.sql")
	text := func(c *lake.Content) string {
		var b strings.Builder
		for _, tab := range c.Tables {
			fmt.Fprintf(&b, "%s %d", tab.FullName(), tab.Rows)
			for _, col := range tab.Columns {
				fmt.Fprintf(&b, " %s:%s", col.Name, col.Type)
			}
			b.WriteString("\n")
		}
		for _, f := range c.Files {
			fmt.Fprintf(&b, "  %s %d %s rows=%d logical=%v\n", f.Kind, f.ID, f.Path[:strings.LastIndex(f.Path, "/")], f.Rows, f.Logical)
		}
		for _, v := range c.Views {
			fmt.Fprintf(&b, "  view %s.%s\n", v.Schema, v.Name)
		}
		return b.String()
	}
	for snapshot, want := range map[int64]string{
		0: "",
		2: "main.towns 10 id:int32 name:varchar pop:decimal(18,2) seen:timestamptz\n  data 0 main/towns rows=10 logical=true\n",
		// file 2 is what an UPDATE wrote: it holds kept row ids
		4: "main.towns 8 id:int32 name:varchar pop:decimal(18,2) seen:timestamptz\n" +
			"  delete 3 main/towns rows=3 logical=false\n  data 0 main/towns rows=10 logical=false\n  data 2 main/towns rows=1 logical=false\n",
		6: "main.towns 9 id:int32 name:varchar pop:decimal(18,2) seen:timestamptz area:float64\n" +
			"  delete 3 main/towns rows=3 logical=false\n  data 0 main/towns rows=10 logical=false\n  data 2 main/towns rows=1 logical=false\n  data 4 main/towns rows=1 logical=true\n",
		12: "geo.n 1 s:struct(x int32, y list(int32)) m:map(varchar, decimal(2,1)) l:list(int32) u:uuid b:boolean bl:blob d:date ts:timestamp\n" +
			"main.towns 9 id:int64 name:varchar population:decimal(18,2) area:float64\n" +
			"  data 5 geo/n rows=1 logical=true\n  delete 3 main/towns rows=3 logical=false\n  data 0 main/towns rows=10 logical=false\n" +
			"  data 2 main/towns rows=1 logical=false\n  data 4 main/towns rows=1 logical=false\n  view main.big\n",
	} {
		got := describe(t, d, snapshot)
		sorted := func(s string) []string { return slices.Sorted(strings.SplitSeq(s, "\n")) }
		if diff := cmp.Diff(sorted(want), sorted(text(got))); diff != "" {
			t.Errorf("snapshot %d (-want +got):\n%s", snapshot, diff)
		}
	}
	last := describe(t, d, 22)
	var cities lake.ContentTable
	for _, tab := range last.Tables {
		if tab.Name == "cities" {
			cities = tab
		}
	}
	if cities.Comment != "a comment" || cities.Columns[1].Comment != "nm" || cities.Rows != 0 {
		t.Errorf("cities: %+v", cities)
	}
	if got := last.Tables[len(last.Tables)-1]; got.FullName() != "main.x" || got.Rows != 1 {
		t.Errorf("last table: %+v", got)
	}
}

func TestDescribeFilesOfOthers(t *testing.T) {
	d := laketest.Load(t, "testdata/add-data-files.sql")
	c := describe(t, d, 14)
	for _, f := range c.Files {
		if f.Logical {
			t.Errorf("%s: taken for the table as it is", f.Path)
		}
	}
	d = laketest.Load(t, "testdata/unsafe/merged-rewritten.sql")
	for _, f := range describe(t, d, 8).Files {
		if f.Logical {
			t.Errorf("%s: compacted, taken for the table as it is", f.Path)
		}
	}
	if _, err := lake.Describe(context.Background(), d.Begin(), 99); err == nil {
		t.Error("a snapshot that does not exist was described")
	}
}

func TestDescribeManyFiles(t *testing.T) {
	d := laketest.Load(t, "testdata/hand-ops.sql")
	const n = 100_000
	for i := range int64(n) {
		d.Add("data_file", catalog.Encode(catalog.Lookup("data_file"), catalog.DataFileRow{DataFileID: 1000 + i, TableID: 5, BeginSnapshot: 19,
			Path: fmt.Sprintf("f%d.parquet", i), PathIsRelative: true, FileFormat: "parquet", RecordCount: 1, FileSizeBytes: 100, RowIDStart: ptr(i)}))
	}
	x := &prepared{Tx: d.Begin(), rows: map[string][]catalog.Row{}}
	for _, tab := range catalog.Tables {
		for r, err := range x.Tx.Rows(context.Background(), tab, lake.Where{}) {
			if err != nil {
				t.Fatal(err)
			}
			x.rows[tab.Name] = append(x.rows[tab.Name], r)
		}
	}
	start := time.Now()
	c, err := lake.Describe(context.Background(), x, 19)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 2*time.Second { // twice, for a loaded machine
		t.Errorf("%d files took %s", n, took)
	} else {
		t.Logf("%d files in %s", n, took)
	}
	if len(c.Files) != n+1 {
		t.Errorf("%d files", len(c.Files))
	}
}
