package lake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// Extra is a part of a catalog that is in no file of a version but its frozen
// catalog: a schema, a macro, how a table is partitioned or sorted, a column's
// default, the comment of a view.
type Extra struct {
	What  string // in words: macro main.area
	Table string // schema.table when it is a table's, else ""
	text  string // all of it, without ids that the catalog gives out anew
}

// Extras reads them as they are at snapshot, sorted.
func Extras(ctx context.Context, src Reader, snapshot int64) ([]Extra, error) {
	d := &describer{ctx: ctx, src: src, at: snapshot, out: &Content{}, schemas: map[int64]*describedSchema{}, tables: map[int64]*describedTable{}}
	x := &extras{describer: d}
	for _, step := range []func() error{d.readSchemas, d.readTables, d.readViews, x.defaults, x.macros, x.partitions, x.sorts, x.comments} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, s := range d.out.Schemas {
		x.add("schema "+s, "", "")
	}
	slices.SortFunc(x.out, compareExtras)
	return x.out, nil
}

func compareExtras(a, b Extra) int {
	if c := strings.Compare(a.What, b.What); c != 0 {
		return c
	}
	return strings.Compare(a.text, b.text)
}

// DiffExtras lists those that only one side has or that differ, in words.
// same says that there are none. What belongs to a table that came or went
// goes without saying.
func DiffExtras(old, now []Extra, isTable func(name string) bool) (lines []string, same bool) {
	was := map[string]string{}
	for _, e := range old {
		was[e.What] += e.text + "\n"
	}
	is := map[string]string{}
	for _, e := range now {
		is[e.What] += e.text + "\n"
	}
	say := func(e Extra, verb string) {
		if line := verb + " " + e.What; (e.Table == "" || isTable(e.Table)) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	same = true
	for _, e := range now {
		text, ok := was[e.What]
		if ok && text == is[e.What] {
			continue
		}
		same = false
		verb := "change"
		if !ok && e.Table == "" {
			verb = "add"
		}
		say(e, verb)
	}
	for _, e := range old {
		if _, ok := is[e.What]; ok {
			continue
		}
		same = false
		verb := "drop"
		if e.Table != "" {
			verb = "change"
		}
		say(e, verb)
	}
	return lines, same
}

type extras struct {
	*describer
	out []Extra
}

func (x *extras) add(what, table, text string) {
	x.out = append(x.out, Extra{What: what, Table: table, text: text})
}

func (x *extras) defaults() error {
	return each(x.ctx, x.src, "column", Where{}, func(r catalog.ColumnRow) error {
		t := x.tables[r.TableID]
		if t == nil || !x.visible(r.BeginSnapshot, r.EndSnapshot) || r.DefaultValue == nil || *r.DefaultValue == "NULL" {
			return nil
		}
		x.add("default of "+t.FullName()+"."+r.ColumnName, t.FullName(), fmt.Sprintf("%q %q", *r.DefaultValue, orEmpty(r.DefaultValueType)))
		return nil
	})
}

func (x *extras) macros() error {
	bodies := map[int64][]string{}
	err := each(x.ctx, x.src, "macro_impl", Where{}, func(r catalog.MacroImplRow) error {
		bodies[r.MacroID] = append(bodies[r.MacroID], fmt.Sprintf("body %d %q %q %q", r.ImplID, orEmpty(r.Dialect), orEmpty(r.Type), r.SQL))
		return nil
	})
	if err != nil {
		return err
	}
	err = each(x.ctx, x.src, "macro_parameters", Where{}, func(r catalog.MacroParameterRow) error {
		bodies[r.MacroID] = append(bodies[r.MacroID], fmt.Sprintf("parameter %d %d %q %q %q %q", r.ImplID, r.ColumnID,
			orEmpty(r.ParameterName), orEmpty(r.ParameterType), orEmpty(r.DefaultValue), orEmpty(r.DefaultValueType)))
		return nil
	})
	if err != nil {
		return err
	}
	return each(x.ctx, x.src, "macro", Where{}, func(r catalog.MacroRow) error {
		s := x.schemas[r.SchemaID]
		if s == nil || !x.visible(r.BeginSnapshot, r.EndSnapshot) {
			return nil
		}
		body := bodies[r.MacroID]
		slices.Sort(body)
		x.add("macro "+s.name+"."+r.MacroName, "", strings.Join(body, "\n"))
		return nil
	})
}

func (x *extras) partitions() error {
	keys := map[int64][]string{}
	err := each(x.ctx, x.src, "partition_column", Where{}, func(r catalog.PartitionColumnRow) error {
		keys[r.PartitionID] = append(keys[r.PartitionID], fmt.Sprintf("%06d %d %q", r.PartitionKeyIndex, r.ColumnID, orEmpty(r.Transform)))
		return nil
	})
	if err != nil {
		return err
	}
	return each(x.ctx, x.src, "partition_info", Where{}, func(r catalog.PartitionInfoRow) error {
		x.keys("partitioning", r.TableID, r.BeginSnapshot, r.EndSnapshot, keys[r.PartitionID])
		return nil
	})
}

func (x *extras) sorts() error {
	keys := map[int64][]string{}
	err := each(x.ctx, x.src, "sort_expression", Where{}, func(r catalog.SortExpressionRow) error {
		keys[r.SortID] = append(keys[r.SortID], fmt.Sprintf("%06d %q %q %q %q", r.SortKeyIndex,
			orEmpty(r.Expression), orEmpty(r.Dialect), orEmpty(r.SortDirection), orEmpty(r.NullOrder)))
		return nil
	})
	if err != nil {
		return err
	}
	return each(x.ctx, x.src, "sort_info", Where{}, func(r catalog.SortInfoRow) error {
		x.keys("sort order", r.TableID, r.BeginSnapshot, r.EndSnapshot, keys[r.SortID])
		return nil
	})
}

// keys adds the spec of a table, unless it has no keys: that is how a reset
// may look.
func (x *extras) keys(what string, table, begin int64, end *int64, keys []string) {
	t := x.tables[table]
	if t == nil || !x.visible(begin, end) || len(keys) == 0 {
		return
	}
	slices.Sort(keys)
	x.add(what+" of "+t.FullName(), t.FullName(), strings.Join(keys, "\n"))
}

func (x *extras) comments() error {
	views := map[int64]string{}
	for _, v := range x.describer.out.Views {
		views[v.ID] = v.Schema + "." + v.Name
	}
	return each(x.ctx, x.src, "tag", Where{}, func(r catalog.TagRow) error {
		// COMMENT ON ... IS NULL leaves a tag without a value; that of a table is in dataset.json.
		if name, ok := views[r.ObjectID]; ok && r.Value != nil && x.visible(r.BeginSnapshot, r.EndSnapshot) {
			x.add(r.Key+" of view "+name, "", *r.Value)
		}
		return nil
	})
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
