package catalog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
)

// OrderBy sorts rows in SQLite exactly as their keys sort in the store.
func TestOrderBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	texts := []string{"", "a", "b", "B", "aa", "ab", "é", "e\u0301", "a\x00", "a\x00b", "\x00", "zzz", "10", "9", "1e1", strings.Repeat("m", 257), "\xff"}
	for _, tab := range catalog.Tables {
		l := loadLake(t, "testdata/ddl_sqlite.sql")
		keyed := map[string]bool{}
		for _, p := range tab.Key {
			keyed[p.Column] = true
		}
		seen := map[string]bool{}
		for range 300 {
			row := make(catalog.Row, len(tab.Columns))
			for i, c := range tab.Columns {
				if !keyed[c.Name] && !c.NotNull {
					continue
				}
				if !c.NotNull && !c.Primary && rng.IntN(8) == 0 {
					continue // NULL
				}
				switch {
				case c.Name == "scope":
					row[i] = []string{"schema", "table"}[rng.IntN(2)]
				case c.Type == catalog.BigInt:
					row[i] = []int64{0, 1, 2, 9, 10, 255, 256, 1 << 40, 1<<63 - 1}[rng.IntN(9)]
				default:
					row[i] = texts[rng.IntN(len(texts))]
				}
			}
			key, err := tab.KeyOf(nil, row)
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
			marks := strings.TrimSuffix(strings.Repeat("?,", len(row)), ",")
			if _, err := l.db.Exec(fmt.Sprintf("INSERT OR IGNORE INTO %s VALUES(%s)", tab.SQLName(), marks), row...); err != nil {
				t.Fatal(err)
			}
		}
		var last []byte
		n := 0
		for row, err := range l.rows(tab) {
			if err != nil {
				t.Fatal(err)
			}
			key, err := tab.KeyOf(nil, row)
			if err != nil {
				t.Fatal(err)
			}
			if last != nil && bytes.Compare(last, key) >= 0 {
				t.Fatalf("%s: %x comes after %x\nORDER BY %s", tab.Name, key, last, catalog.OrderBy(tab))
			}
			last = key
			n++
		}
		if n < 5 {
			t.Errorf("%s: only %d rows: the test shows nothing", tab.Name, n)
		}
	}
}
