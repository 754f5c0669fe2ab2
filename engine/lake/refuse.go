package lake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
)

// RefuseBase is what a commit compares the working catalog with.
type RefuseBase struct {
	Snapshot   int64 // last snapshot of the base version; 0 before the first version
	NextFileID int64 // of that snapshot
	// FileCheck looks at a stored file that the base version does not have:
	// there, not empty, Parquet. path lies below data_path. Nil: none is looked at.
	FileCheck func(path string) error
	// Alias under which messages name the catalog in SQL; default "lake".
	Alias string
}

// Refuse looks for everything in a working catalog that must not enter a
// version: what a frozen catalog cannot hold, what breaks DuckLake's own
// invariants, and files that are not there. The first finding is returned as
// an *outcome.Error that names it and the SQL that cures it.
func Refuse(ctx context.Context, tx Tx, base RefuseBase) error {
	if base.Alias == "" {
		base.Alias = "lake"
	}
	facts, err := tx.Facts(ctx)
	if err != nil {
		return fmt.Errorf("look at working catalog: %w", err)
	}
	if err := refuseFacts(facts, base); err != nil {
		return err
	}
	c := &checker{base: base, src: tx, schemas: map[int64]*checkedObject{}, tables: map[int64]*checkedObject{}, dropped: map[int64]bool{}}
	for _, step := range []func(context.Context) error{
		c.snapshots, c.readSchemas, c.readTables, func(context.Context) error { return c.inlined(facts) }, c.views, c.macros, c.columns, c.specs, c.dataFiles, c.deleteFiles, c.mappings, c.counters,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return c.newFiles()
}

// refuse is a refusal of what somebody put in, with what to do about it.
func refuse(what, next string) error {
	return outcome.New(outcome.Refused, oneLine(what), oneLine(next))
}

// oneLine shows control characters of names instead of obeying them.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// undo is the cure for what no SQL repairs.
const undo = "undo the uncommitted work: touch .reset (it is kept for 7 days)"

func refuseFacts(f *Facts, base RefuseBase) error {
	switch {
	case f.ColumnFault != "":
		return refuse("the working catalog is not one of DuckLake 1.0: "+f.ColumnFault, undo)
	case f.Version != "1.0":
		return refuse(fmt.Sprintf("the working catalog is of DuckLake version %q, wanted 1.0", f.Version), undo+"; use DuckDB 1.5")
	case f.Encrypted:
		return refuse("the working catalog is encrypted: its keys would be published with it", undo)
	}
	return nil
}

// inlined refuses rows that are kept in the catalog: a version's rows are in files.
func (c *checker) inlined(f *Facts) error {
	name := func(id int64) string {
		if t := c.tables[id]; t != nil {
			return "table " + t.name
		}
		return fmt.Sprintf("table %d, which was dropped,", id)
	}
	flush := fmt.Sprintf("CALL ducklake_flush_inlined_data('%s')", c.base.Alias)
	for _, in := range f.Inlined {
		if in.Rows > 0 {
			return refuse(fmt.Sprintf("%s has %s kept inside the catalog (%s), not in a data file", name(in.TableID), count(in.Rows, "row"), in.SQLName), flush)
		}
	}
	for _, in := range f.InlinedDeletes {
		if in.Rows > 0 {
			return refuse(fmt.Sprintf("%s has %s kept inside the catalog (%s), not in a delete file", name(in.TableID), count(in.Rows, "deleted row"), in.SQLName), flush)
		}
	}
	return nil
}

// checkedObject is a live schema or table.
type checkedObject struct {
	name string // as people write it: schema, or schema.table
	dir  string // below data_path
}

// checker walks the catalog table by table; it keeps only what later steps need.
type checker struct {
	base    RefuseBase
	src     Reader
	last    catalog.SnapshotRow
	schemas map[int64]*checkedObject
	tables  map[int64]*checkedObject
	dropped map[int64]bool   // tables that were there once: DuckDB leaves rows live of an INSERT and DROP TABLE in one transaction, and shows none
	files   map[int64]string // live data files: full path
	known   map[int64]bool   // every data file id, ended or not
	fresh   []freshFile      // files that the base version does not have
	maxCat  topID
	maxFile topID
}

type freshFile struct {
	path, table string
}

// topID is the greatest id seen in a sequence, and whose it is.
type topID struct {
	id   int64
	what string
	any  bool
}

func (t *topID) see(id int64, what string) {
	if !t.any || id > t.id {
		t.id, t.what, t.any = id, what, true
	}
}

// snapshots refuses gaps: a snapshot that was expired took history with it.
func (c *checker) snapshots(ctx context.Context) error {
	var ids []int64
	err := each(ctx, c.src, "snapshot", Where{}, func(r catalog.SnapshotRow) error {
		if r.SnapshotID >= c.base.Snapshot {
			ids = append(ids, r.SnapshotID)
		}
		if len(ids) == 1 || r.SnapshotID > c.last.SnapshotID {
			c.last = r
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(ids)
	if len(ids) == 0 || ids[0] != c.base.Snapshot {
		return refuse(fmt.Sprintf("snapshot %d, which the last commit was made from, is gone (ducklake_expire_snapshots?)", c.base.Snapshot), undo)
	}
	gap := map[int64]int64{} // snapshot after a gap -> the one before
	for i := 1; i < len(ids); i++ {
		if ids[i] != ids[i-1]+1 {
			gap[ids[i]] = ids[i-1]
		}
	}
	if len(gap) == 0 {
		return nil
	}
	// our own snapshots skip numbers that the ledger has given out before
	err = each(ctx, c.src, "snapshot_changes", Where{}, func(r catalog.SnapshotChangesRow) error {
		if r.CommitExtraInfo != nil && *r.CommitExtraInfo == enteredMark {
			delete(gap, r.SnapshotID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if before, ok := gap[id]; ok {
			return refuse(fmt.Sprintf("snapshots %d to %d are gone (ducklake_expire_snapshots?)", before+1, id-1), undo)
		}
	}
	return nil
}

// counters refuses ids that the next writer would give out again.
func (c *checker) counters(context.Context) error {
	if t := c.maxCat; t.any && t.id >= c.last.NextCatalogID {
		return refuse(fmt.Sprintf("%s has id %d, but snapshot %d would give out %d next", t.what, t.id, c.last.SnapshotID, c.last.NextCatalogID), undo)
	}
	if t := c.maxFile; t.any && t.id >= c.last.NextFileID {
		return refuse(fmt.Sprintf("%s has id %d, but snapshot %d would give out %d next", t.what, t.id, c.last.SnapshotID, c.last.NextFileID), undo)
	}
	return nil
}

// newFiles looks at what the base version does not have.
func (c *checker) newFiles() error {
	if c.base.FileCheck == nil {
		return nil
	}
	for _, f := range c.fresh {
		if err := c.base.FileCheck(f.path); err != nil {
			return outcome.Wrap(outcome.Refused, fmt.Sprintf("data file %s of table %s", f.path, f.table), err,
				"put the file back as it was; or "+undo)
		}
	}
	return nil
}

// hasParent says whether a path has a segment that leads upwards.
func hasParent(p string) bool {
	for s := range strings.SplitSeq(p, "/") {
		if s == ".." {
			return true
		}
	}
	return false
}

// sqlName quotes schema.table for SQL.
func (c *checker) sqlName(name string) string {
	schema, table, ok := strings.Cut(name, ".")
	if !ok {
		return parquet.QuoteName(c.base.Alias) + "." + parquet.QuoteName(name)
	}
	return parquet.QuoteName(c.base.Alias) + "." + parquet.QuoteName(schema) + "." + parquet.QuoteName(table)
}
