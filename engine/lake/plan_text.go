package lake

import (
	"fmt"
	"strings"
)

// maxNamed is how many files of a table a summary names before it counts them.
const maxNamed = 3

// describe writes what the plan does, for people.
func (p *Plan) describe() {
	for _, t := range p.tables {
		p.describeTable(t)
	}
}

func (p *Plan) say(format string, args ...any) {
	p.Summary = append(p.Summary, fmt.Sprintf(format, args...))
}

// show adds a line of status: a sign, the table, what happens.
func (p *Plan) show(sign string, t *planTable, format string, args ...any) {
	p.Preview = append(p.Preview, fmt.Sprintf("%s %s   %s", sign, t.fullName(), fmt.Sprintf(format, args...)))
}

func (p *Plan) describeTable(t *planTable) {
	if t.drop {
		n := int64(0)
		for _, f := range t.state.Files {
			n += f.rows()
		}
		p.say("drop table %s", t.fullName())
		p.show("-", t, "drop table (%s)", count(n, "row"))
		return
	}
	if t.renamedFrom != "" {
		p.say("rename table %s.%s to %s", t.schema.name, t.renamedFrom, t.name)
		p.show("~", t, "renamed from %s", t.renamedFrom)
	}
	if t.state == nil {
		p.describeNew(t)
		return
	}
	p.describeColumns(t)
	p.describeFiles(t)
}

func (p *Plan) describeNew(t *planTable) {
	rows := int64(0)
	for i, u := range t.puts {
		rows += u.rows
		if i == 0 {
			p.show("+", t, "new table, %s from %s: %s", count(u.rows, "row"), u.edit.Name, columnList(t.columns))
		} else {
			p.show("+", t, "%s from %s", count(u.rows, "row"), u.edit.Name)
		}
	}
	p.say("add table %s (%s)", t.fullName(), count(rows, "row"))
}

func (p *Plan) describeColumns(t *planTable) {
	gone := map[string]bool{}
	for _, c := range t.gone {
		gone[c.ColumnName] = true
	}
	for _, c := range t.columns {
		switch {
		case c.state == nil && gone[c.name], c.retyped:
			p.say("change column %s of %s to %s", c.name, t.fullName(), c.column().SQLType)
			p.show("~", t, "column %s becomes %s", c.name, c.column().SQLType)
		case c.state == nil:
			p.say("add column %s to %s", c.name, t.fullName())
			p.show("+", t, "new column %s %s", c.name, c.column().SQLType)
		}
	}
}

func (p *Plan) describeFiles(t *planTable) {
	var appended int64
	var appends, removed, replaced []string
	for _, u := range t.puts {
		if u.replaces == nil && u.rows > 0 {
			appended += u.rows
			appends = append(appends, u.edit.Name)
			p.show("+", t, "%s from %s", count(u.rows, "row"), u.edit.Name)
		}
	}
	var newRows, oldRows, removedRows int64
	for _, c := range t.closes {
		if c.put != nil {
			newRows += c.put.rows
			oldRows += c.file.rows()
			replaced = append(replaced, c.file.Name)
			p.show("~", t, "replace %s: %s from %s, was %d", c.file.Name, count(c.put.rows, "row"), c.put.edit.Name, c.file.rows())
		} else {
			removedRows += c.file.rows()
			removed = append(removed, c.file.Name)
			p.show("-", t, "remove %s (%s)", c.file.Name, count(c.file.rows(), "row"))
		}
	}
	if len(appends) > 0 {
		p.say("append %s to %s", count(appended, "row"), t.fullName())
	}
	if len(replaced) > 0 {
		p.say("replace %s in %s (%s, was %d)", listed(replaced), t.fullName(), count(newRows, "row"), oldRows)
	}
	if len(removed) > 0 {
		p.say("remove %s from %s (%s)", listed(removed), t.fullName(), count(removedRows, "row"))
	}
	for _, r := range t.renames {
		to := Stem(r.name) + ".parquet"
		p.say("rename %s to %s in %s", r.file.Name, to, t.fullName())
		p.show("~", t, "%s renamed to %s", r.file.Name, to)
	}
}

func listed(names []string) string {
	if len(names) > maxNamed {
		return count(int64(len(names)), "file")
	}
	return strings.Join(names, ", ")
}

func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func columnList(cs []*planColumn) string {
	s := make([]string, len(cs))
	for i, c := range cs {
		s[i] = c.name + " " + c.column().SQLType
	}
	return strings.Join(s, ", ")
}
