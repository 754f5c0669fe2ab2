package catalogtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
)

// Benchmarks measure a driver beside the same rows in plain SQLite tables,
// which the driver named sqlite of database/sql opens; it must be linked in.
// Figures are those of one run; the peer's are measured in the same.

// BenchCommits measures durable commits of one snapshot with one data file: two
// more rows, two counters and the base, by one caller and by 16. Which ledger
// commits next is decided above the store, so 16 callers wait for each other.
func BenchCommits(b *testing.B, d Driver) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			w, err := d.OpenWriter(b.Context(), d.New(b))
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			if err := Fill(b.Context(), w, 1); err != nil {
				b.Fatal(err)
			}
			cache, err := counters.Load(b.Context(), w)
			if err != nil {
				b.Fatal(err)
			}
			var mu sync.Mutex
			r := &registrar{w: w, cache: cache}
			peer := newPlain(b, filepath.Join(b.TempDir(), "plain.db"), 1)
			next := int64(1)
			for b.Loop() {
				mine := perSecond(b, callers, func() error {
					mu.Lock()
					defer mu.Unlock()
					return r.register(b.Context(), 1)
				})
				theirs := perSecond(b, callers, func() error {
					mu.Lock()
					defer mu.Unlock()
					next++
					return peer.insert(b.Context(), next, 1, next)
				})
				b.ReportMetric(mine, "commits/s")
				b.ReportMetric(theirs, "peer-commits/s")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// perSecond runs f for two seconds in as many goroutines as there are callers.
func perSecond(tb testing.TB, callers int, f func() error) float64 {
	tb.Helper()
	const whole = 2 * time.Second
	var wait sync.WaitGroup
	done := make([]int, callers)
	errs := make([]error, callers)
	start := time.Now()
	for i := range callers {
		wait.Go(func() {
			for time.Since(start) < whole && errs[i] == nil {
				errs[i] = f()
				done[i]++
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	n := 0
	for _, k := range done {
		n += k
	}
	return float64(n) / time.Since(start).Seconds()
}

// BenchList measures the bulk load of a table of many files, and to open a ledger and to list the data files of its newest
// snapshot, in a process of its own that does nothing else: time, time on a
// processor (which other work on the machine does not stretch), and the most
// memory the process had.
func BenchList(b *testing.B, d Driver) {
	medians := map[int]listing{}
	for _, files := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			place, plainPath := d.New(b), filepath.Join(b.TempDir(), "plain.db")
			fill := listIn(b, place, fmt.Sprint(roleFill, " ", files), files)
			newPlain(b, plainPath, files).db.Close()
			for b.Loop() {
				var mine, theirs []listing
				for range 5 { // in turn
					mine = append(mine, listIn(b, place, roleList, files))
					theirs = append(theirs, listIn(b, plainPath, roleListPlain, files))
				}
				one, peer := median(mine), median(theirs)
				medians[files] = one
				b.ReportMetric(fill.ms, "fill-ms")
				b.ReportMetric(fill.mb, "fill-MB")
				b.ReportMetric(one.ms, "ms")
				b.ReportMetric(one.cpu, "cpu-ms")
				b.ReportMetric(one.mb, "MB")
				b.ReportMetric(peer.ms, "peer-ms")
				b.ReportMetric(peer.cpu, "peer-cpu-ms")
				b.ReportMetric(peer.mb, "peer-MB")
				if small, ok := medians[10_000]; ok {
					b.ReportMetric(one.ms/small.ms, "times-10000")
					b.ReportMetric(one.cpu/small.cpu, "cpu-times-10000")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// listing is what a process said of itself.
type listing struct{ ms, cpu, mb float64 }

func median(list []listing) listing {
	middle := func(of func(listing) float64) float64 {
		sort.Slice(list, func(i, j int) bool { return of(list[i]) < of(list[j]) })
		return of(list[len(list)/2])
	}
	return listing{
		ms:  middle(func(l listing) float64 { return l.ms }),
		cpu: middle(func(l listing) float64 { return l.cpu }),
		mb:  middle(func(l listing) float64 { return l.mb }),
	}
}

func listIn(tb testing.TB, place, role string, files int) listing {
	tb.Helper()
	var l listing
	n, last := 0, ""
	for next := start(tb, place, role); ; {
		line, ok := next()
		if !ok {
			break
		}
		if _, err := fmt.Sscanf(line, "listed %d %f %f %f", &n, &l.ms, &l.cpu, &l.mb); err != nil {
			last = line
		}
	}
	if last != "end" || n != files {
		tb.Fatalf("%s: %d files, want %d; %s", role, n, files, last)
	}
	return l
}

// playFill makes the ledger that the others list.
func playFill(ctx context.Context, d Driver, place string, files int) error {
	begin := time.Now()
	w, err := d.OpenWriter(ctx, place)
	if err != nil {
		return err
	}
	if err := errors.Join(Fill(ctx, w, files), w.Close()); err != nil {
		return err
	}
	return sayListed(files, begin)
}

// playList lists a ledger's newest snapshot.
func playList(ctx context.Context, d Driver, place string) error {
	begin := time.Now()
	s, err := d.OpenReader(ctx, place)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := catalog.OpenReader(ctx, s)
	if err != nil {
		return err
	}
	v, err := r.View(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	bounds, err := catalog.ReadBounds(ctx, v)
	if err != nil {
		return err
	}
	n, path := 0, dataFiles.Col("path")
	for row, err := range catalog.Rows(ctx, v, dataFiles, bounds.Latest) {
		if err != nil {
			return err
		}
		if row[path] != nil {
			n++
		}
	}
	return sayListed(n, begin)
}

// playListPlain lists the same of plain tables.
func playListPlain(ctx context.Context, path string) error {
	begin := time.Now()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	var latest int64
	if err := db.QueryRowContext(ctx, "SELECT max(snapshot_id) FROM ducklake_snapshot").Scan(&latest); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, "SELECT * FROM ducklake_data_file WHERE begin_snapshot<=?1 AND (end_snapshot IS NULL OR ?1<end_snapshot)", latest)
	if err != nil {
		return err
	}
	defer rows.Close()
	n, path0 := 0, dataFiles.Col("path")
	row := make([]any, len(dataFiles.Columns))
	dest := make([]any, len(row))
	for i := range row {
		dest[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if row[path0] != nil {
			n++
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return sayListed(n, begin)
}

func sayListed(n int, begin time.Time) error {
	took := time.Since(begin)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	var kb float64
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscanf(rest, "%f kB", &kb); err != nil {
				return err
			}
		}
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return err
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	fmt.Printf("listed %d %f %f %f\n", n, took.Seconds()*1000, cpu.Seconds()*1000, kb/1024)
	return nil
}

// plain is the same rows in DuckLake's own tables of SQLite.
type plain struct{ db *sql.DB }

func newPlain(tb testing.TB, path string, files int) *plain {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	p := &plain{db}
	for _, t := range catalog.Tables {
		if _, err := db.Exec(catalog.SQLiteDDL(t)); err != nil {
			tb.Fatal(err)
		}
	}
	first := int64(0)
	for s := int64(0); files > 0; s++ {
		chunk := min(files, fillChunk)
		if err := p.insert(tb.Context(), s, chunk, first); err != nil {
			tb.Fatal(err)
		}
		first += int64(chunk)
		files -= chunk
	}
	return p
}

// insert is one transaction: a snapshot with files from the id first on.
func (p *plain) insert(ctx context.Context, s int64, files int, first int64) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	add := func(t *catalog.Table, row catalog.Row) error {
		marks := strings.TrimSuffix(strings.Repeat("?,", len(row)), ",")
		_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s VALUES(%s)", t.SQLName(), marks), row...)
		return err
	}
	for id := first; id < first+int64(files); id++ {
		if err := add(dataFiles, catalog.Encode(dataFiles, fillFile(id, s))); err != nil {
			return err
		}
	}
	if err := add(snapshots, catalog.Encode(snapshots, catalog.SnapshotRow{SnapshotID: s, SnapshotTime: "2026-01-01 00:00:00.000000+00", NextCatalogID: 2, NextFileID: first + int64(files)})); err != nil {
		return err
	}
	if err := add(snapshotChanges, catalog.Encode(snapshotChanges, catalog.SnapshotChangesRow{SnapshotID: s, ChangesMade: catalog.Ptr("inserted_into_table:1")})); err != nil {
		return err
	}
	return tx.Commit()
}
