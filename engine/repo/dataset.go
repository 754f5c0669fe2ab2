package repo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tarnfs/tarn/engine/repo/internal/strictjson"
)

// Dataset is dataset.json: what a version holds, in words for people. It holds
// no time, no ID and nothing else that differs between two builds of the same
// content, because its sha256 takes part in "nothing changed".
type Dataset struct {
	Name        string
	Title       string
	Description string
	Keywords    []string
	Licenses    []License
	Homepage    string
	Sources     []Source
	Tables      []Table // computed by the commit, see Merge
	Views       []View  // likewise
	Extra       map[string]json.RawMessage
}

// License of the data. Name is an SPDX identifier where there is one.
type License struct {
	Name, URL string
	Extra     map[string]json.RawMessage
}

// Source of the data.
type Source struct {
	Title, URL string
	Extra      map[string]json.RawMessage
}

// Table describes one table of the version.
type Table struct {
	Schema, Name, Comment string
	Rows                  int64
	Columns               []Column // in the table's order
	Extra                 map[string]json.RawMessage
}

// Column describes one column. Type is DuckLake's name of it, such as int64.
type Column struct {
	Name, Type, Comment string
	Nullable            bool
	Extra               map[string]json.RawMessage
}

// View describes one view.
type View struct {
	Schema, Name, SQL string
	Extra             map[string]json.RawMessage
}

// Merge is the dataset.json of a commit: what people edited, with the tables
// and views that the commit found. What edited says about those is ignored, but
// for fields that only other tools know: a table, column or view that is still
// there keeps its own.
func Merge(edited *Dataset, tables []Table, views []View) *Dataset {
	d := *edited
	d.Tables, d.Views = slices.Clone(tables), slices.Clone(views)
	type name struct{ schema, name string }
	old := map[name]*Table{}
	for i := range edited.Tables {
		t := &edited.Tables[i]
		old[name{t.Schema, t.Name}] = t
	}
	for i := range d.Tables {
		t := &d.Tables[i]
		if was := old[name{t.Schema, t.Name}]; was != nil {
			t.Extra, t.Columns = was.Extra, keepColumns(t.Columns, was.Columns)
		}
	}
	for i := range d.Views {
		v := &d.Views[i]
		for _, was := range edited.Views {
			if was.Schema == v.Schema && was.Name == v.Name {
				v.Extra = was.Extra
			}
		}
	}
	return &d
}

// keepColumns gives columns the unknown fields that they had.
func keepColumns(columns, was []Column) []Column {
	extra := map[string]map[string]json.RawMessage{}
	for _, c := range was {
		if len(c.Extra) > 0 {
			extra[c.Name] = c.Extra
		}
	}
	if len(extra) == 0 {
		return columns
	}
	columns = slices.Clone(columns)
	for i := range columns {
		columns[i].Extra = extra[columns[i].Name]
	}
	return columns
}

// DecodeDataset reads dataset.json. People edit it: a fault is ErrMalformed
// and says line, place and what was expected.
func DecodeDataset(data []byte) (*Dataset, error) {
	d := &Dataset{}
	err := decodeObject(DatasetFile, data, maxDataset, func(r *strictjson.Reader, key string) error {
		switch key {
		case "name":
			return optString(r, &d.Name)
		case "title":
			return optString(r, &d.Title)
		case "description":
			return optString(r, &d.Description)
		case "keywords":
			return optList(r, &d.Keywords, func(s *string) error {
				return optString(r, s)
			})
		case "licenses":
			return optObjects(r, &d.Licenses, func(l *License, key string) error {
				switch key {
				case "name":
					return optString(r, &l.Name)
				case "url":
					return optString(r, &l.URL)
				}
				return keep(r, key, &l.Extra)
			})
		case "homepage":
			return optString(r, &d.Homepage)
		case "sources":
			return optObjects(r, &d.Sources, func(s *Source, key string) error {
				switch key {
				case "title":
					return optString(r, &s.Title)
				case "url":
					return optString(r, &s.URL)
				}
				return keep(r, key, &s.Extra)
			})
		case "tables":
			return optObjects(r, &d.Tables, func(t *Table, key string) error { return t.decode(r, key) })
		case "views":
			return optObjects(r, &d.Views, func(v *View, key string) error {
				switch key {
				case "schema":
					return optString(r, &v.Schema)
				case "name":
					return optString(r, &v.Name)
				case "sql":
					return optString(r, &v.SQL)
				}
				return keep(r, key, &v.Extra)
			})
		}
		return keep(r, key, &d.Extra)
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (t *Table) decode(r *strictjson.Reader, key string) error {
	switch key {
	case "schema":
		return optString(r, &t.Schema)
	case "name":
		return optString(r, &t.Name)
	case "comment":
		return optString(r, &t.Comment)
	case "rows":
		return optCount(r, &t.Rows)
	case "columns":
		return optList(r, &t.Columns, func(c *Column) error {
			c.Nullable = true
			return r.Object(func(key string) error { return c.decode(r, key) })
		})
	}
	return keep(r, key, &t.Extra)
}

func (c *Column) decode(r *strictjson.Reader, key string) error {
	switch key {
	case "name":
		return optString(r, &c.Name)
	case "type":
		return optString(r, &c.Type)
	case "nullable":
		return optBool(r, &c.Nullable)
	case "comment":
		return optString(r, &c.Comment)
	}
	return keep(r, key, &c.Extra)
}

// optList reads a list; null leaves it empty.
func optList[T any](r *strictjson.Reader, list *[]T, one func(*T) error) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	return r.Array(func() error {
		var v T
		err := one(&v)
		*list = append(*list, v)
		return err
	})
}

func optObjects[T any](r *strictjson.Reader, list *[]T, field func(v *T, key string) error) error {
	return optList(r, list, func(v *T) error {
		return r.Object(func(key string) error { return field(v, key) })
	})
}

// Encode writes dataset.json in its one form: equal content, equal bytes.
// Tables and views are sorted by schema and name.
func (d *Dataset) Encode() ([]byte, error) {
	o := strictjson.Object{
		"name":        d.Name,
		"title":       d.Title,
		"description": d.Description,
		"keywords":    d.Keywords,
		"homepage":    d.Homepage,
		"licenses": objects(d.Licenses, func(l License) strictjson.Object {
			return with(l.Extra, strictjson.Object{"name": l.Name, "url": l.URL})
		}),
		"sources": objects(d.Sources, func(s Source) strictjson.Object {
			return with(s.Extra, strictjson.Object{"title": s.Title, "url": s.URL})
		}),
		"tables": objects(sorted(d.Tables, func(t Table) [2]string { return [2]string{t.Schema, t.Name} }), Table.object),
		"views": objects(sorted(d.Views, func(v View) [2]string { return [2]string{v.Schema, v.Name} }), func(v View) strictjson.Object {
			return with(v.Extra, strictjson.Object{"schema": v.Schema, "name": v.Name, "sql": v.SQL})
		}),
	}
	data, err := strictjson.Marshal(with(d.Extra, o))
	if err == nil && int64(len(data)) > maxDataset {
		err = fmt.Errorf("%d bytes, more than %d", len(data), int64(maxDataset))
	}
	if err != nil {
		return nil, fmt.Errorf("encode dataset.json: %w", err)
	}
	return data, nil
}

func (t Table) object() strictjson.Object {
	return with(t.Extra, strictjson.Object{
		"schema": t.Schema, "name": t.Name, "comment": t.Comment, "rows": t.Rows,
		"columns": objects(t.Columns, func(c Column) strictjson.Object {
			return with(c.Extra, strictjson.Object{"name": c.Name, "type": c.Type, "nullable": c.Nullable, "comment": c.Comment})
		}),
	})
}

func objects[T any](list []T, object func(T) strictjson.Object) []strictjson.Object {
	out := make([]strictjson.Object, len(list))
	for i, v := range list {
		out[i] = object(v)
	}
	return out
}

func with(extra map[string]json.RawMessage, o strictjson.Object) strictjson.Object {
	o.Append(extra)
	return o
}

func sorted[T any](list []T, key func(T) [2]string) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int {
		ka, kb := key(a), key(b)
		return cmp.Or(cmp.Compare(ka[0], kb[0]), cmp.Compare(ka[1], kb[1]))
	})
	return list
}

// SameDataset tells whether two dataset.json texts say the same: then a commit
// keeps the parent's bytes, whoever wrote them, so that their sha256 stays the
// same. A missing field says the same as its default.
func SameDataset(a, b []byte) (bool, error) {
	if bytes.Equal(a, b) {
		return true, nil
	}
	da, err := DecodeDataset(a)
	if err != nil {
		return false, err
	}
	db, err := DecodeDataset(b)
	if err != nil {
		return false, err
	}
	if a, err = da.Encode(); err != nil {
		return false, err
	}
	if b, err = db.Encode(); err != nil {
		return false, err
	}
	return bytes.Equal(a, b), nil
}

// SameEdits tells whether two datasets say the same in all that people edit:
// everything but tables and views.
func SameEdits(a, b *Dataset) (bool, error) {
	text := func(d *Dataset) ([]byte, error) {
		edits := *d
		edits.Tables, edits.Views = nil, nil
		return edits.Encode()
	}
	at, err := text(a)
	if err != nil {
		return false, err
	}
	bt, err := text(b)
	return bytes.Equal(at, bt), err
}
