package lake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/parquet"
)

func (d *describer) readMappings() error {
	d.hive = map[int64]bool{}
	return each(d.ctx, d.src, "name_mapping", Where{}, func(r catalog.NameMappingRow) error {
		if r.IsPartition {
			d.hive[r.MappingID] = true
		}
		return nil
	})
}

// readDeletes collects the delete files. Which of them count is decided by
// their data files: a DELETE of every row ends the data file alone and leaves
// an earlier delete file of it live.
func (d *describer) readDeletes() error {
	d.deletes = map[int64][]catalog.DeleteFileRow{}
	return each(d.ctx, d.src, "delete_file", Where{}, func(r catalog.DeleteFileRow) error {
		if d.visible(r.BeginSnapshot, r.EndSnapshot) {
			d.deletes[r.DataFileID] = append(d.deletes[r.DataFileID], r)
		}
		return nil
	})
}

func (d *describer) readFiles() error {
	all, err := d.src.Names(d.ctx)
	if err != nil {
		return fmt.Errorf("read names of dropped files: %w", err)
	}
	names := make(map[int64]*Named, len(all))
	for i := range all {
		names[all[i].DataFileID] = &all[i]
	}
	return each(d.ctx, d.src, "data_file", Where{}, func(r catalog.DataFileRow) error {
		if !d.visible(r.BeginSnapshot, r.EndSnapshot) {
			return nil
		}
		t := d.tables[r.TableID]
		if t == nil {
			return nil // of a table that was dropped in the transaction of the INSERT: DuckDB leaves it live
		}
		t.Rows += r.RecordCount
		t.Bytes += r.FileSizeBytes
		f := ContentFile{Kind: DataKind, ID: r.DataFileID, Path: joinFile(t.dir, r.Path, r.PathIsRelative), Schema: t.Schema, Table: t.Name,
			TableID: t.ID, Rows: r.RecordCount, Bytes: r.FileSizeBytes}
		n := names[r.DataFileID]
		if n != nil {
			f.Name, f.SourceSHA256 = n.Name, n.SHA256
		}
		if f.Logical, err = d.logical(&r, t, n); err != nil {
			return err
		}
		if f.Logical && n == nil {
			// SQL wrote it: in a transaction that may have altered the table or
			// updated rows after that. The catalog does not always tell.
			i, altered := slices.BinarySearch(t.changed, r.BeginSnapshot)
			f.Logical, f.Doubt = !altered || i == 0, true
		}
		d.out.Files = append(d.out.Files, f)
		for _, del := range d.deletes[r.DataFileID] {
			t.Rows -= del.DeleteCount
			d.out.Files = append(d.out.Files, ContentFile{Kind: DeleteKind, ID: del.DeleteFileID, DataFileID: del.DataFileID,
				Path: joinFile(t.dir, del.Path, del.PathIsRelative), Schema: t.Schema, Table: t.Name, TableID: t.ID, Rows: del.DeleteCount, Bytes: del.FileSizeBytes})
		}
		return nil
	})
}

// logical says whether the stored file can be shown as it is: its rows and
// columns are exactly the table's at this snapshot. In doubt it says no; then
// the rows are rewritten when somebody reads them.
func (d *describer) logical(r *catalog.DataFileRow, t *describedTable, n *Named) (bool, error) {
	switch {
	case len(d.deletes[r.DataFileID]) > 0:
		return false, nil // some of its rows are deleted
	case r.PartialMax != nil, r.RowIDStart == nil:
		return false, nil // compaction and flush keep row ids and snapshots in hidden columns
	case r.DataFileID >= d.nextFile[r.BeginSnapshot] && d.known(r.BeginSnapshot):
		return false, nil // back-dated by compaction
	case r.MappingID != nil && (n == nil || d.hive[*r.MappingID]):
		return false, nil // added by ducklake_add_data_files: other columns, or values in the path
	case n == nil && d.mixed[r.BeginSnapshot][strconv.FormatInt(r.TableID, 10)]:
		return false, nil // maybe of an UPDATE
	}
	return t.sameColumnsAt(r.BeginSnapshot)
}

// known says whether the snapshot's row is there: a frozen catalog may keep
// only its newest.
func (d *describer) known(snapshot int64) bool {
	_, ok := d.nextFile[snapshot]
	return ok
}

// HasNames says whether a file's columns have the names of the table's, where
// no more is known of them.
func (t *ContentTable) HasNames(names []string) bool {
	return slices.EqualFunc(names, t.Columns, func(n string, c ContentColumn) bool { return n == c.Name })
}

// ShowsTable says whether a stored file of this footer, which SQL wrote, has
// exactly the table's columns: it settles ContentFile.Doubt.
func (t *ContentTable) ShowsTable(f *parquet.Footer) bool {
	if len(f.Columns) != len(t.Columns) {
		return false
	}
	for i, have := range f.Columns {
		want := &t.Columns[i]
		if have.Name != want.Name || !inexact(want.Type) && footerType(have) != want.Type {
			return false
		}
	}
	return true
}

// footerType prints a file's type as typeText prints a column's.
func footerType(c *parquet.Column) string {
	if !nested(c.Type) {
		return c.Type
	}
	parts := make([]string, len(c.Children))
	for i, f := range c.Children {
		parts[i] = footerType(f)
		if c.Type == "struct" {
			parts[i] = f.Name + " " + parts[i]
		}
	}
	return c.Type + "(" + strings.Join(parts, ", ") + ")"
}

// inexact says that DuckDB stores a type, or one in it, as another one, which
// the footer does not tell from the true one.
func inexact(typ string) bool {
	for word := range strings.FieldsFuncSeq(typ, func(r rune) bool { return strings.ContainsRune("(), ", r) }) {
		switch word {
		case "int128", "uint128", "interval", "json", "timetz", "time_ns", "timestamp_s", "timestamp_ms", "timestamp_us", "variant", "geometry", "unknown":
			return true
		}
	}
	return false
}
