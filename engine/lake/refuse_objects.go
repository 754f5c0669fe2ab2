package lake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// history checks the versions of objects of one kind: at most one live row an
// id, and no two rows that hold at the same snapshot.
type history struct {
	kind string
	rows map[string][]span
}

type span struct {
	begin int64
	end   *int64
	name  string
}

// length orders spans of one begin: 0 ends there, -1 ends later or not at all.
func (s span) length() int64 {
	if s.end != nil && *s.end == s.begin {
		return 0
	}
	return -1
}

func newHistory(kind string) *history { return &history{kind: kind, rows: map[string][]span{}} }

func (h *history) add(id string, begin int64, end *int64, name string) {
	h.rows[id] = append(h.rows[id], span{begin, end, name})
}

func (h *history) check() error {
	ids := make([]string, 0)
	for id, spans := range h.rows {
		if len(spans) > 1 || spans[0].end != nil && *spans[0].end < spans[0].begin {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		spans := h.rows[id]
		slices.SortStableFunc(spans, func(a, b span) int {
			if c := compare(a.begin, b.begin); c != 0 {
				return c
			}
			// What ends where it begins holds at no snapshot: DuckDB leaves it of
			// CREATE TABLE and ALTER in one transaction.
			return compare(b.length(), a.length())
		})
		live := 0
		for i, s := range spans {
			if s.end == nil {
				live++
			} else if *s.end < s.begin {
				return refuse(fmt.Sprintf("%s %s (id %s) ends before it begins, at snapshot %d", h.kind, s.name, id, *s.end), undo)
			}
			if live > 1 {
				return refuse(fmt.Sprintf("%s %s (id %s) is there twice", h.kind, s.name, id), undo)
			}
			if i > 0 && (spans[i-1].end == nil || *spans[i-1].end > s.begin) {
				return refuse(fmt.Sprintf("two versions of %s %s (id %s) hold at snapshot %d", h.kind, s.name, id, s.begin), undo)
			}
		}
	}
	return nil
}

func (c *checker) readSchemas(ctx context.Context) error {
	h := newHistory("schema")
	names := map[string]string{}
	err := each(ctx, c.src, "schema", Where{}, func(r catalog.SchemaRow) error {
		c.maxCat.see(r.SchemaID, "schema "+r.SchemaName)
		h.add(fmt.Sprint(r.SchemaID), r.BeginSnapshot, r.EndSnapshot, r.SchemaName)
		if r.EndSnapshot != nil {
			return nil
		}
		if err := c.checkDir("schema "+r.SchemaName, r.Path, r.PathIsRelative); err != nil {
			return err
		}
		if other, twice := names[strings.ToLower(r.SchemaName)]; twice {
			return refuse(fmt.Sprintf("schemas %s and %s have one name, case aside", other, r.SchemaName),
				fmt.Sprintf("move the tables of one into the other, then: DROP SCHEMA %s", c.sqlName(r.SchemaName)))
		}
		names[strings.ToLower(r.SchemaName)] = r.SchemaName
		c.schemas[r.SchemaID] = &checkedObject{name: r.SchemaName, dir: joinDir("", r.Path, r.PathIsRelative)}
		return nil
	})
	if err != nil {
		return err
	}
	return h.check()
}

func (c *checker) readTables(ctx context.Context) error {
	h := newHistory("table")
	names := map[string]string{}
	err := each(ctx, c.src, "table", Where{}, func(r catalog.TableRow) error {
		c.maxCat.see(r.TableID, "table "+r.TableName)
		h.add(fmt.Sprint(r.TableID), r.BeginSnapshot, r.EndSnapshot, r.TableName)
		if r.EndSnapshot != nil {
			c.dropped[r.TableID] = true // unless another row is live
			return nil
		}
		s := c.schemas[r.SchemaID]
		if s == nil {
			return refuse(fmt.Sprintf("table %s (id %d) belongs to schema %d, which does not exist", r.TableName, r.TableID, r.SchemaID), undo)
		}
		name := s.name + "." + r.TableName
		if err := c.checkDir("table "+name, r.Path, r.PathIsRelative); err != nil {
			return err
		}
		if c.tables[r.TableID] != nil {
			return nil // history names it
		}
		fold := fmt.Sprintf("%d.%s", r.SchemaID, strings.ToLower(r.TableName))
		if other, twice := names[fold]; twice {
			return refuse(fmt.Sprintf("tables %s and %s have one name, case aside", other, name),
				fmt.Sprintf("ALTER TABLE %s RENAME TO ...", c.sqlName(name)))
		}
		names[fold] = name
		c.tables[r.TableID] = &checkedObject{name: name, dir: joinDir(s.dir, r.Path, r.PathIsRelative)}
		return nil
	})
	if err != nil {
		return err
	}
	return h.check()
}

// checkDir refuses folders that lie outside data_path.
func (c *checker) checkDir(what string, path *string, relative bool) error {
	switch {
	case !relative:
		p := ""
		if path != nil {
			p = *path
		}
		return refuse(fmt.Sprintf("%s has the absolute folder %q, outside the repository", what, p), undo)
	case path != nil && (strings.HasPrefix(*path, "/") || hasParent(*path)):
		return refuse(fmt.Sprintf("%s has the folder %q, outside the repository", what, *path), undo)
	}
	return nil
}

func (c *checker) views(ctx context.Context) error {
	h := newHistory("view")
	names := map[string]string{}
	for _, t := range c.tables {
		names[strings.ToLower(t.name)] = "table " + t.name
	}
	err := each(ctx, c.src, "view", Where{}, func(r catalog.ViewRow) error {
		c.maxCat.see(r.ViewID, "view "+r.ViewName)
		h.add(fmt.Sprint(r.ViewID), r.BeginSnapshot, r.EndSnapshot, r.ViewName)
		if r.EndSnapshot != nil {
			return nil
		}
		s := c.schemas[r.SchemaID]
		if s == nil {
			return refuse(fmt.Sprintf("view %s (id %d) belongs to schema %d, which does not exist", r.ViewName, r.ViewID, r.SchemaID), undo)
		}
		name := s.name + "." + r.ViewName
		if other, twice := names[strings.ToLower(name)]; twice {
			return refuse(fmt.Sprintf("view %s and %s have one name, case aside", name, other), fmt.Sprintf("DROP VIEW %s", c.sqlName(name)))
		}
		names[strings.ToLower(name)] = "view " + name
		return nil
	})
	if err != nil {
		return err
	}
	return h.check()
}

func (c *checker) macros(ctx context.Context) error {
	h := newHistory("macro")
	// DuckDB takes such a macro and then fails whatever is asked of the catalog.
	broken := map[int64]string{}
	err := each(ctx, c.src, "macro_parameters", Where{}, func(r catalog.MacroParameterRow) error {
		if nested(strings.ToLower(orEmpty(r.DefaultValueType))) {
			broken[r.MacroID] = orEmpty(r.ParameterName) + " := " + orEmpty(r.DefaultValue)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = each(ctx, c.src, "macro", Where{}, func(r catalog.MacroRow) error {
		c.maxCat.see(r.MacroID, "macro "+r.MacroName)
		h.add(fmt.Sprint(r.MacroID), r.BeginSnapshot, r.EndSnapshot, r.MacroName)
		if r.EndSnapshot == nil && c.schemas[r.SchemaID] == nil {
			return refuse(fmt.Sprintf("macro %s (id %d) belongs to schema %d, which does not exist", r.MacroName, r.MacroID, r.SchemaID), undo)
		}
		if p, ok := broken[r.MacroID]; ok && r.EndSnapshot == nil {
			return refuse(fmt.Sprintf("macro %s.%s has the default %s: DuckDB 1.5 cannot open a catalog with a list, struct or map there", c.schemas[r.SchemaID].name, r.MacroName, p),
				undo+"; then make the macro without that default")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return h.check()
}

func (c *checker) columns(ctx context.Context) error {
	h := newHistory("column")
	live := map[int64]int{}
	names := map[int64]map[string]bool{}
	err := each(ctx, c.src, "column", Where{}, func(r catalog.ColumnRow) error {
		t := c.tables[r.TableID]
		name := r.ColumnName
		if t != nil {
			name = t.name + "." + r.ColumnName
		}
		h.add(fmt.Sprintf("%d of table %d", r.ColumnID, r.TableID), r.BeginSnapshot, r.EndSnapshot, name)
		if r.EndSnapshot != nil {
			return nil
		}
		if t == nil && c.dropped[r.TableID] {
			return nil
		}
		if t == nil {
			return refuse(fmt.Sprintf("column %s belongs to table %d, which does not exist", r.ColumnName, r.TableID), undo)
		}
		live[r.TableID]++
		if r.ParentColumn != nil {
			return nil
		}
		if names[r.TableID] == nil {
			names[r.TableID] = map[string]bool{}
		}
		fold := strings.ToLower(r.ColumnName)
		if names[r.TableID][fold] {
			return refuse(fmt.Sprintf("table %s has two columns named %s, case aside", t.name, r.ColumnName), undo)
		}
		names[r.TableID][fold] = true
		return nil
	})
	if err != nil {
		return err
	}
	for id, t := range c.tables {
		if live[id] == 0 {
			return refuse(fmt.Sprintf("table %s has no columns", t.name), "DROP TABLE "+c.sqlName(t.name))
		}
	}
	return h.check()
}

// specs looks at partition and sort specs: their ids count in the catalog's sequence.
func (c *checker) specs(ctx context.Context) error {
	err := each(ctx, c.src, "partition_info", Where{}, func(r catalog.PartitionInfoRow) error {
		c.maxCat.see(r.PartitionID, fmt.Sprintf("a partition spec of table %d", r.TableID))
		if r.EndSnapshot == nil && c.tables[r.TableID] == nil && !c.dropped[r.TableID] {
			return refuse(fmt.Sprintf("partition spec %d belongs to table %d, which does not exist", r.PartitionID, r.TableID), undo)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return each(ctx, c.src, "sort_info", Where{}, func(r catalog.SortInfoRow) error {
		c.maxCat.see(r.SortID, fmt.Sprintf("a sort spec of table %d", r.TableID))
		return nil
	})
}
