package lake

import (
	"context"
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// isFresh says whether a file row is not in the base version. Compaction
// back-dates the begin of what it writes, but not its id.
func (c *checker) isFresh(id, begin int64) bool {
	return begin > c.base.Snapshot || c.base.NextFileID > 0 && id >= c.base.NextFileID
}

// checkPath refuses a file that lies outside its table's folder.
func (c *checker) checkPath(kind string, t *checkedObject, path string, relative bool) error {
	cure := fmt.Sprintf("copy its rows in: CREATE TABLE ... AS FROM %s, drop the table and rename the copy; or %s", c.sqlName(t.name), undo)
	switch {
	case !relative:
		return refuse(fmt.Sprintf("table %s has the %s %s, recorded with a path of its own, outside the table's folder (ducklake_add_data_files?)", t.name, kind, path), cure)
	case path == "" || strings.HasPrefix(path, "/") || hasParent(t.dir+path):
		return refuse(fmt.Sprintf("table %s has the %s %q, outside the repository", t.name, kind, path), cure)
	}
	return nil
}

func (c *checker) dataFiles(ctx context.Context) error {
	c.files = map[int64]string{}
	c.known = map[int64]bool{}
	withFiles := map[int64]bool{}
	err := each(ctx, c.src, "data_file", Where{}, func(r catalog.DataFileRow) error {
		c.maxFile.see(r.DataFileID, "data file "+r.Path)
		if c.known[r.DataFileID] {
			return refuse(fmt.Sprintf("data file id %d is given twice", r.DataFileID), undo)
		}
		c.known[r.DataFileID] = true
		if r.EndSnapshot != nil {
			if *r.EndSnapshot < r.BeginSnapshot {
				return refuse(fmt.Sprintf("data file %s ends before it begins, at snapshot %d", r.Path, *r.EndSnapshot), undo)
			}
			return nil
		}
		t := c.tables[r.TableID]
		switch {
		case t == nil && c.dropped[r.TableID]:
			return nil
		case t == nil:
			return refuse(fmt.Sprintf("data file %s belongs to table %d, which does not exist", r.Path, r.TableID), undo)
		case r.EncryptionKey != nil:
			return refuse(fmt.Sprintf("data file %s of table %s is encrypted: its key would be published with it", r.Path, t.name), undo)
		case r.FileFormat != "parquet":
			return refuse(fmt.Sprintf("data file %s of table %s has the format %q, wanted parquet", r.Path, t.name, r.FileFormat), undo)
		case r.RecordCount < 0:
			return refuse(fmt.Sprintf("data file %s of table %s has %d rows", r.Path, t.name, r.RecordCount), undo)
		}
		if err := c.checkPath("data file", t, r.Path, r.PathIsRelative); err != nil {
			return err
		}
		full := t.dir + r.Path
		c.files[r.DataFileID] = full
		withFiles[r.TableID] = true
		if c.isFresh(r.DataFileID, r.BeginSnapshot) {
			c.fresh = append(c.fresh, freshFile{full, t.name})
		}
		return nil
	})
	if err != nil {
		return err
	}
	// without the row DuckDB's next INSERT gives out row ids again
	err = each(ctx, c.src, "table_stats", Where{}, func(r catalog.TableStatsRow) error {
		delete(withFiles, r.TableID)
		return nil
	})
	if err != nil {
		return err
	}
	for id := range withFiles {
		return refuse(fmt.Sprintf("table %s has data files but no row in ducklake_table_stats", c.tables[id].name), undo)
	}
	return nil
}

func (c *checker) deleteFiles(ctx context.Context) error {
	of := map[int64]string{}
	return each(ctx, c.src, "delete_file", Where{}, func(r catalog.DeleteFileRow) error {
		c.maxFile.see(r.DeleteFileID, "delete file "+r.Path)
		if r.EndSnapshot != nil || c.known[r.DataFileID] && c.files[r.DataFileID] == "" {
			return nil // a DELETE of every row ends the data file and leaves this row live
		}
		t := c.tables[r.TableID]
		switch {
		case t == nil && c.dropped[r.TableID]:
			return nil
		case t == nil:
			return refuse(fmt.Sprintf("delete file %s belongs to table %d, which does not exist", r.Path, r.TableID), undo)
		case r.EncryptionKey != nil:
			return refuse(fmt.Sprintf("delete file %s of table %s is encrypted: its key would be published with it", r.Path, t.name), undo)
		case r.Format != "parquet":
			schema, table, _ := strings.Cut(t.name, ".")
			return refuse(fmt.Sprintf("delete file %s of table %s has the format %s, wanted parquet (WRITE_DELETION_VECTORS?)", r.Path, t.name, r.Format),
				fmt.Sprintf("CALL ducklake_rewrite_data_files('%s', '%s', schema => '%s', delete_threshold => 0)", c.base.Alias, quoteText(table), quoteText(schema)))
		case !c.known[r.DataFileID]:
			return refuse(fmt.Sprintf("delete file %s of table %s is for data file %d, which does not exist", r.Path, t.name, r.DataFileID), undo)
		case of[r.DataFileID] != "":
			return refuse(fmt.Sprintf("data file %s of table %s has two delete files, %s and %s", c.files[r.DataFileID], t.name, of[r.DataFileID], r.Path), undo)
		}
		if err := c.checkPath("delete file", t, r.Path, r.PathIsRelative); err != nil {
			return err
		}
		of[r.DataFileID] = r.Path
		if c.isFresh(r.DeleteFileID, r.BeginSnapshot) {
			c.fresh = append(c.fresh, freshFile{t.dir + r.Path, t.name})
		}
		return nil
	})
}

func quoteText(s string) string { return strings.ReplaceAll(s, "'", "''") }

func (c *checker) mappings(ctx context.Context) error {
	return each(ctx, c.src, "column_mapping", Where{}, func(r catalog.ColumnMappingRow) error {
		c.maxFile.see(r.MappingID, fmt.Sprintf("a name mapping of table %d", r.TableID))
		return nil
	})
}
