package main

import "testing"

func TestSplitTable(t *testing.T) {
	for arg, want := range map[string][2]string{
		"towns": {"", "towns"}, "v1:towns": {"v1", "towns"}, "work:main:main.towns": {"work:main", "main.towns"},
		"main@2026-10-12T14:03:05Z:towns": {"main@2026-10-12T14:03:05Z", "towns"}, ":t": {"", "t"},
	} {
		if ref, table := splitTable(arg); ref != want[0] || table != want[1] {
			t.Errorf("%s: %q %q", arg, ref, table)
		}
	}
}
