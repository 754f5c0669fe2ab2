package lake

import (
	"context"
	"path"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

func (st *State) partsOf(tableID int64) *tableParts {
	p := st.parts[tableID]
	if p == nil {
		p = &tableParts{maxColumn: -1, columnStats: map[int64]catalog.TableColumnStatsRow{}}
		st.parts[tableID] = p
	}
	return p
}

func (st *State) loadFiles(ctx context.Context, src Reader) error {
	err := each(ctx, src, "data_file", Where{}, func(r catalog.DataFileRow) error {
		p := st.partsOf(r.TableID)
		p.everFiles = true
		p.grossRows += r.RecordCount
		p.grossBytes += r.FileSizeBytes
		if r.RowIDStart != nil {
			p.nextRowID = max(p.nextRowID, *r.RowIDStart+r.RecordCount)
		}
		t := st.tables[r.TableID]
		if t != nil && r.EndSnapshot == nil {
			st.taken[joinFile(t.Dir, r.Path, r.PathIsRelative)] = true
		}
		if r.EndSnapshot != nil {
			st.closed[r.DataFileID] = closedFile{tableID: r.TableID, end: *r.EndSnapshot}
			return nil
		}
		if t == nil {
			return nil // Refuse names it
		}
		f := &FileState{DataFileRow: r, Named: st.named[r.DataFileID]}
		f.Name = shownName(f.Named, r.Path)
		st.files[r.DataFileID] = f
		t.Files = append(t.Files, f)
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range st.parts {
		// compaction can leave row_id_start NULL; the ids it holds were given out once
		p.nextRowID = max(p.nextRowID, p.grossRows)
	}
	return each(ctx, src, "delete_file", Where{Live: true}, func(r catalog.DeleteFileRow) error {
		if f := st.files[r.DataFileID]; f != nil {
			f.Deletes = append(f.Deletes, r)
		}
		return nil
	})
}

func (st *State) loadStats(ctx context.Context, src Reader) error {
	err := each(ctx, src, "table_stats", Where{}, func(r catalog.TableStatsRow) error {
		p := st.partsOf(r.TableID)
		p.stats = &r
		p.nextRowID = max(p.nextRowID, r.NextRowID)
		return nil
	})
	if err != nil {
		return err
	}
	return each(ctx, src, "table_column_stats", Where{}, func(r catalog.TableColumnStatsRow) error {
		st.partsOf(r.TableID).columnStats[r.ColumnID] = r
		return nil
	})
}

// rows is what the file contributes to its table.
func (f *FileState) rows() int64 {
	n := f.RecordCount
	for _, d := range f.Deletes {
		n -= d.DeleteCount
	}
	return n
}

// shownName is the name under which tables/ shows a stored file: the stem it
// was dropped under, or its stored name when SQL made it.
func shownName(n *Named, stored string) string {
	if n != nil && n.Name != "" {
		return Stem(n.Name) + ".parquet"
	}
	return path.Base(stored)
}

// dataSuffixes are the endings of a dropped file that say how it is stored, not what it is.
var dataSuffixes = []string{".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson"}

// Stem is the identity of a file in a table's folder: its name without the
// ending that tells its form. towns.csv, towns.csv.gz and towns.parquet have one stem.
func Stem(name string) string {
	for _, z := range []string{".gz", ".zst"} {
		if inner, ok := cutSuffixFold(name, z); ok {
			if _, ok := cutDataSuffix(inner); ok {
				name = inner
			}
			break
		}
	}
	stem, _ := cutDataSuffix(name)
	return stem
}

func cutDataSuffix(name string) (string, bool) {
	for _, s := range dataSuffixes {
		if stem, ok := cutSuffixFold(name, s); ok {
			return stem, true
		}
	}
	return name, false
}

// cutSuffixFold is strings.CutSuffix without regard to case.
func cutSuffixFold(s, suffix string) (string, bool) {
	n := len(s) - len(suffix)
	if n < 0 || !strings.EqualFold(s[n:], suffix) {
		return s, false
	}
	return s[:n], true
}

// schema finds a live schema by name, whatever its case.
func (st *State) schema(name string) *SchemaState {
	for _, s := range st.Schemas {
		if strings.EqualFold(s.SchemaName, name) {
			return s
		}
	}
	return nil
}

// table finds a live table of s by name, whatever its case.
func (s *SchemaState) table(name string) *TableState {
	for _, t := range s.Tables {
		if strings.EqualFold(t.TableName, name) {
			return t
		}
	}
	return nil
}

// Entered says which of the stagings are in the catalog already: a commit that
// crashed after it entered them finds them here and enters nothing twice.
func Entered(names []Named, stageIDs []string) map[string]bool {
	in := make(map[string]bool, len(names))
	for _, n := range names {
		in[n.StageID] = true
	}
	done := map[string]bool{}
	for _, id := range stageIDs {
		if id != "" && in[id] {
			done[id] = true
		}
	}
	return done
}
