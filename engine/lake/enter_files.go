package lake

import (
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/parquet"
)

// closeFile ends a data file with its delete files.
func (w *writer) closeFile(f *FileState) {
	ended := f.DataFileRow
	ended.EndSnapshot = catalog.Ptr(w.snapshot)
	updateRow(w, "data_file", f.DataFileRow, ended)
	for _, d := range f.Deletes {
		gone := d
		gone.EndSnapshot = catalog.Ptr(w.snapshot)
		updateRow(w, "delete_file", d, gone)
	}
}

func (w *writer) forget(f *FileState) {
	if f.Named != nil {
		w.removeNames = append(w.removeNames, f.DataFileID)
	}
}

func (w *writer) closeFiles(t *planTable) {
	for _, c := range t.closes {
		w.closeFile(c.file)
		w.forget(c.file)
	}
	if len(t.closes) > 0 {
		w.deleted = append(w.deleted, fmt.Sprintf("deleted_from_table:%d", w.tableIDs[t]))
	}
}

// addFiles registers the files that were taken for the table.
func (w *writer) addFiles(t *planTable) error {
	id := w.tableIDs[t]
	acc := newTableTotals(w, t, id)
	maps := &mappings{w: w, tableID: id, existing: t.state != nil}
	for _, u := range t.puts {
		if u.step < 0 {
			continue
		}
		step := &w.p.Steps[u.step]
		got := w.taken[u.edit.StageID]
		if got == nil || got.Footer == nil {
			return fmt.Errorf("enter %s: its bytes were not taken", u.edit.Path)
		}
		if got.Footer.Rows == 0 {
			continue // DuckLake registers no file without rows
		}
		if err := w.addFile(t, u, step, got, acc, maps); err != nil {
			return fmt.Errorf("enter %s: %w", u.edit.Path, err)
		}
	}
	if acc.files > 0 {
		acc.write()
		w.inserted = append(w.inserted, fmt.Sprintf("inserted_into_table:%d", id))
	}
	return nil
}

func (w *writer) addFile(t *planTable, u *planPut, step *TakeStep, got *Taken, acc *tableTotals, maps *mappings) error {
	ids, err := matchColumns(t.columns, got.Footer.Columns)
	if err != nil {
		return err
	}
	if err := checkNotNull(t, u, got.Footer, ids); err != nil {
		return err
	}
	var mapping *int64
	if !fieldIDsMatch(got.Footer.Columns, ids) {
		m, err := maps.find(got.Footer.Columns, ids)
		if err != nil {
			return err
		}
		mapping = catalog.Ptr(m)
	}
	f := got.Footer
	size := got.Bytes
	if size == 0 {
		size = f.Bytes
	}
	fileID := w.fileID()
	insertRow(w, "data_file", catalog.DataFileRow{DataFileID: fileID, TableID: acc.tableID, BeginSnapshot: w.snapshot,
		Path: step.StoredName, PathIsRelative: true, FileFormat: "parquet", RecordCount: f.Rows, FileSizeBytes: size,
		FooterSize: catalog.Ptr(f.FooterSize), RowIDStart: catalog.Ptr(acc.nextRowID), MappingID: mapping})
	acc.add(f.Rows, size)
	for _, s := range f.Leaves {
		c := ids[s.Column]
		if !boundsMean(s.Column.Type, c.typ) {
			s.Min, s.Max = nil, nil
		}
		insertRow(w, "file_column_stats", catalog.FileColumnStatsRow{DataFileID: fileID, TableID: acc.tableID, ColumnID: c.id,
			ColumnSizeBytes: catalog.Ptr(s.SizeBytes), ValueCount: s.ValueCount, NullCount: s.NullCount, MinValue: s.Min, MaxValue: s.Max})
		acc.addLeaf(c, s)
	}
	acc.endFile()
	w.addNames = append(w.addNames, Named{StageID: u.edit.StageID, DataFileID: fileID, Name: u.edit.Name, SHA256: got.SHA256})
	return nil
}

// columnIDs says which column of the table each column of a file is.
type columnIDs map[*parquet.Column]*planColumn

// matchColumns pairs the columns of a stored file with the table's by name.
// The file was made or chosen to have exactly them, so a difference is a fault.
func matchColumns(want []*planColumn, have []*parquet.Column) (columnIDs, error) {
	ids := columnIDs{}
	return ids, ids.match("", want, have)
}

func (ids columnIDs) match(above string, want []*planColumn, have []*parquet.Column) error {
	if len(want) != len(have) {
		return fmt.Errorf("stored file has %d columns%s, wanted %d", len(have), above, len(want))
	}
	for i, c := range have {
		w := want[i]
		if !strings.EqualFold(w.name, c.Name) {
			return fmt.Errorf("stored file has column %s%s, wanted %s", c.Name, above, w.name)
		}
		if nested(w.typ) != (len(c.Children) > 0) || nested(w.typ) && w.typ != c.Type {
			return fmt.Errorf("stored file has column %s%s as %s, wanted %s", c.Name, above, c.Type, w.typ)
		}
		ids[c] = w
		if err := ids.match(" in "+c.Name, w.children, c.Children); err != nil {
			return err
		}
	}
	return nil
}

// fieldIDsMatch says whether a reader can resolve the whole file by field ids:
// only when every group and leaf carries the id of its column.
func fieldIDsMatch(have []*parquet.Column, ids columnIDs) bool {
	for _, c := range have {
		if c.FieldID == nil || int64(*c.FieldID) != ids[c].id || !fieldIDsMatch(c.Children, ids) {
			return false
		}
	}
	return true
}

// checkNotNull keeps NULLs out of columns that SQL declared NOT NULL.
func checkNotNull(t *planTable, u *planPut, f *parquet.Footer, ids columnIDs) error {
	for _, s := range f.Leaves {
		c := ids[s.Column]
		if c == nil {
			return fmt.Errorf("stored file has statistics for an unknown column %s", s.Column.Name)
		}
		if c.nullable || s.NullCount != nil && *s.NullCount == 0 || !s.Column.Nullable {
			continue
		}
		if c.state == nil || c.state.ParentColumn != nil {
			continue // inside lists and structs NULL counts mean other things
		}
		what := "holds NULLs"
		if s.NullCount == nil {
			what = "does not say that it holds no NULL"
		}
		return refuse(fmt.Sprintf("%s, column %s: it %s, table %s allows none", u.edit.Path, c.name, what, t.fullName()),
			fmt.Sprintf("fill the values, or in SQL: ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", t.fullName(), parquet.QuoteName(c.name)))
	}
	return nil
}

// boundsMean says whether bounds written for the file's type read the same in
// the column's.
func boundsMean(file, column string) bool {
	timestamps := map[string]bool{"timestamp": true, "timestamp_ms": true, "timestamp_s": true}
	f, c := canonical(file), canonical(column)
	return f == c || timestamps[f] && timestamps[c]
}
