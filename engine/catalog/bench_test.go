package catalog_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
)

// BenchmarkLedger measures a table of many files with statistics of 5 columns
// each: the first import, one that changes nothing, listing the visible files,
// and one row of the newest snapshot.
func BenchmarkLedger(b *testing.B) {
	for _, files := range []int64{10_000, 100_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			w := newWorld()
			put(w, "table", catalog.TableRow{TableID: 1, TableUUID: "u", TableName: "t", PathIsRelative: true})
			w.next.NextCatalogID = 2
			for id := range files {
				w.fileID()
				put(w, "data_file", catalog.DataFileRow{DataFileID: id, TableID: 1, Path: fmt.Sprintf("ducklake-01a22d12-9e6a-7da7-ad68-%012d.parquet", id), PathIsRelative: true, FileFormat: "parquet", RecordCount: 10000, FileSizeBytes: 500000})
				for c := range int64(5) {
					put(w, "file_column_stats", catalog.FileColumnStatsRow{DataFileID: id, TableID: 1, ColumnID: c, ValueCount: &id, MinValue: catalog.Ptr("0"), MaxValue: catalog.Ptr("99")})
				}
			}
			put(w, "snapshot", w.next)
			for range b.N {
				l, err := catalog.Create(b.Context(), openStore(b, filepath.Join(b.TempDir(), "c.db")), nil)
				if err != nil {
					b.Fatal(err)
				}
				timed := func(name string, f func()) {
					start := time.Now()
					f()
					b.ReportMetric(float64(time.Since(start).Microseconds())/1000, name)
				}
				for i, name := range []string{"ms/import", "ms/unchanged"} {
					timed(name, func() {
						if _, err := l.Import(b.Context(), w.source, catalog.JournalEntry{ID: fmt.Sprint(i)}); err != nil {
							b.Fatal(err)
						}
					})
				}
				timed("ms/list", func() {
					n := int64(0)
					v, err := l.View(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					defer v.Close()
					for _, err := range catalog.Rows(b.Context(), v, catalog.Lookup("data_file"), 0) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
					if n != files {
						b.Fatal(n)
					}
				})
				timed("ms/snapshot", func() {
					v, err := l.View(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					defer v.Close()
					if _, err := catalog.ReadBounds(b.Context(), v); err != nil {
						b.Fatal(err)
					}
				})
				timed("ms/check", func() {
					v, err := l.View(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					defer v.Close()
					if f := catalog.Check(b.Context(), v); len(f) != 0 {
						b.Fatal(f)
					}
				})
				l.Close()
			}
		})
	}
}
