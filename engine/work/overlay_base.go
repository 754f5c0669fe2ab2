package work

import (
	"slices"
	"strings"
	"time"
)

// baseView looks things up in a Base, whose slices are sorted.
type baseView struct {
	b     Base
	byKey map[string]map[fileKey]int // schema/table -> index into Files; made when a record asks
	times map[string]time.Time       // newest file of a table
}

// emptyBase is a base version without tables.
type emptyBase struct{}

func (emptyBase) Schemas() []string               { return nil }
func (emptyBase) Tables(string) []string          { return nil }
func (emptyBase) Files(string, string) []BaseFile { return nil }

func newBaseView(b Base) *baseView {
	if b == nil {
		b = emptyBase{}
	}
	return &baseView{b: b, byKey: map[string]map[fileKey]int{}, times: map[string]time.Time{}}
}

func (v *baseView) hasSchema(s string) bool {
	_, ok := slices.BinarySearch(v.b.Schemas(), s)
	return ok
}

func (v *baseView) hasTable(s, t string) bool {
	_, ok := slices.BinarySearch(v.b.Tables(s), t)
	return ok
}

// file is the table's file of that name, nil when there is none.
func (v *baseView) file(s, t, name string) *BaseFile {
	files := v.b.Files(s, t)
	i, ok := slices.BinarySearchFunc(files, name, func(f BaseFile, n string) int { return strings.Compare(f.Name, n) })
	if !ok {
		return nil
	}
	return &files[i]
}

// byIdentity is the table's file with that identity, nil when there is none.
func (v *baseView) byIdentity(s, t string, k fileKey) *BaseFile {
	files := v.b.Files(s, t)
	id := s + "/" + t
	index, ok := v.byKey[id]
	if !ok {
		index = make(map[fileKey]int, len(files))
		for i := range files {
			index[keyOf(&files[i])] = i
		}
		v.byKey[id] = index
	}
	if i, ok := index[k]; ok {
		return &files[i]
	}
	return nil
}

// newest is the time of the table's newest file; what a folder shows as its own.
func (v *baseView) newest(s, t string) time.Time {
	id := s + "/" + t
	at, ok := v.times[id]
	if !ok {
		for _, f := range v.b.Files(s, t) {
			if f.ModTime.After(at) {
				at = f.ModTime
			}
		}
		v.times[id] = at
	}
	return at
}
