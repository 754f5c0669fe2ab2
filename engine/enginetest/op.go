package enginetest

import (
	"fmt"
	"strconv"
	"strings"
)

// Op is one operation on a working folder. Its text has the folder, the verb
// and the arguments, separated by spaces:
//
//	A/main drop PATH FORM COLUMNS ROWS SALT   write a file; see Content
//	A/main rm|mkdir|rmdir PATH                below tables/
//	A/main mv PATH PATH
//	A/main allow on|off                       allow_schema_change
//	A/main commit | push | pull | reset | undo | last
//	A/main branch NAME | tag NAME             at HEAD
//	A/b open                                  open a branch's working folder
//	A/main reopen                             close and open all folders of A
//	A/main lose                               the same, and its lake.sqlite is lost between
//
// A folder is named by its home, one state folder each, and its branch.
type Op struct {
	Folder string
	Verb   string
	Args   []string
}

func (o Op) String() string {
	return strings.Join(append([]string{o.Folder, o.Verb}, o.Args...), " ")
}

// home and branch are the parts of a folder's name.
func home(folder string) string { h, _, _ := strings.Cut(folder, "/"); return h }

func branch(folder string) string { _, b, _ := strings.Cut(folder, "/"); return b }

// arguments is how many each verb takes.
var arguments = map[string]int{
	"drop": 5, "rm": 1, "mv": 2, "mkdir": 1, "rmdir": 1, "allow": 1,
	"commit": 0, "push": 0, "pull": 0, "reset": 0, "undo": 0, "last": 0,
	"branch": 1, "tag": 1, "open": 0, "reopen": 0, "lose": 0,
}

// ParseOps reads operations, one a line; empty lines and those that begin with # are skipped.
func ParseOps(text string) ([]Op, error) {
	var ops []Op
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 2 {
			return nil, fmt.Errorf("line %d: %q is no operation", i+1, line)
		}
		o := Op{f[0], f[1], f[2:]}
		n, ok := arguments[o.Verb]
		if !ok || len(o.Args) != n || branch(o.Folder) == "" {
			return nil, fmt.Errorf("line %d: %q is no operation", i+1, line)
		}
		if o.Verb == "drop" {
			if _, err := strconv.Atoi(o.Args[3]); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			if _, err := strconv.Atoi(o.Args[4]); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		ops = append(ops, o)
	}
	return ops, nil
}

// MustOps is ParseOps of a text in a test.
func MustOps(text string) []Op {
	ops, err := ParseOps(text)
	if err != nil {
		panic(err)
	}
	return ops
}

// content is what a drop drops.
func (o Op) content() Content {
	rows, _ := strconv.Atoi(o.Args[3]) // checked by ParseOps, or made by a generator
	salt, _ := strconv.Atoi(o.Args[4])
	return Content{Form: o.Args[1], Cols: o.Args[2], Rows: rows, Salt: salt}
}

func dropOp(folder, path string, c Content) Op {
	return Op{folder, "drop", []string{path, c.Form, c.Cols, strconv.Itoa(c.Rows), strconv.Itoa(c.Salt)}}
}
