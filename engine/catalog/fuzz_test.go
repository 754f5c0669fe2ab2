package catalog_test

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
)

// pairsOf reads a whole store into memory.
func pairsOf(t testing.TB, w kv.Store) pairs {
	t.Helper()
	out := pairs{}
	for k, v := range dumpRaw(t, w) {
		out[string(unhex(t, k))] = unhex(t, v)
	}
	return out
}

// lookAt runs everything that reads a store nobody vouches for.
func lookAt(t testing.TB, p pairs, key []byte) *catalog.Examination {
	x := examine(t, p)
	for _, f := range x.Findings {
		if _, ok := catalog.Categories[f.Code]; !ok {
			t.Fatalf("a finding of no category: %v", f)
		}
		_ = f.String()
	}
	if s, err := catalog.Inspect(t.Context(), p, nil); err == nil && s.Counters.Columns == nil {
		t.Fatal("no list of column counters")
	}
	if i, err := catalog.InspectKey(t.Context(), p, key); err == nil {
		_ = i.Text()
	}
	if a, b := catalog.PlanRepair(t.Context(), p), x.Plan(); !slices.EqualFunc(a, b, func(x, y catalog.Advance) bool { return x.Counter == y.Counter && x.Proposed == y.Proposed }) {
		t.Fatalf("two plans of one store: %v and %v", a, b)
	}
	return x
}

// One flipped or cut byte, wherever it is, in a store of ours or of RockLake's:
// nothing panics, and no flip in a counter or in the key of a row goes unseen.
func TestEachByteDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	rock, _ := rockLakes(t)
	for name, whole := range map[string]pairs{"ours": pairsOf(t, filled(t)), "RockLake's": rock} {
		for key, value := range whole {
			for _, where := range damages(key, value) {
				p := pairs{}
				for k, v := range whole {
					p[k] = v
				}
				delete(p, key)
				p[where.key] = where.value
				x := lookAt(t, p, []byte(where.key))
				if must := where.key == key && key[0] == 0xfe && len(where.value) < len(value); must && len(x.Findings) == 0 {
					t.Errorf("%s: counter %x cut to %x goes unseen", name, key, where.value)
				}
			}
		}
	}
}

type damage struct {
	key   string
	value []byte
}

// damages are the key and the value with one bit flipped or one end cut; of a
// long one only some places.
func damages(key string, value []byte) []damage {
	step := func(n int) int { return max(1, n/2) }
	var out []damage
	for i := 0; i < len(key); i += step(len(key)) {
		k := []byte(key)
		k[i] ^= 0x40
		out = append(out, damage{string(k), value}, damage{key[:i], value})
	}
	for i := 0; i < len(value); i += step(len(value)) {
		v := slices.Clone(value)
		v[i] ^= 0x40
		out = append(out, damage{key, v}, damage{key, value[:i]})
	}
	return out
}

// Any pair beside a whole store, ours or RockLake's, is looked at without a
// panic, and never makes a healthy row of the others unhealthy in its value.
func FuzzExamine(f *testing.F) {
	ours, rock := pairsOf(f, filled(f)), pairs(nil)
	rock, _ = rockLakes(f)
	for _, p := range []pairs{ours, rock} {
		for k, v := range p {
			f.Add([]byte(k), v)
		}
	}
	f.Add([]byte("\x22\x00\x02c1"), unhex(f, "0a02633110011880d095ffbc31"))
	f.Add([]byte("\xffpinned:\x00\x00\x00\x00\x00\x00\x00\x03"), []byte("\x01SDKV\x00\x00\x00\x00\x00\x00\x00\x03"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for _, whole := range []pairs{ours, rock} {
			p := pairs{string(key): value}
			for k, v := range whole {
				if k != string(key) {
					p[k] = v
				}
			}
			for _, found := range lookAt(t, p, key).Findings {
				if found.Code == catalog.CodeValue && found.Key != hex.EncodeToString(key) {
					t.Fatalf("the pair %x: %x makes a value of another key unreadable: %v", key, value, found)
				}
			}
		}
	})
}

func FuzzParseKeyName(f *testing.F) {
	for _, s := range []string{"fe01", "counter:snapshot", "counter:column/42", "sys:writer-epoch", "sys:tarn-journal:7", "sys:tarn-sha:", "sys:tarn-audit:1", "", ":", "fe0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := catalog.ParseKeyName(text)
		if err != nil {
			return
		}
		i, err := catalog.InspectKey(t.Context(), pairs{}, key)
		if err != nil || i.Found || i.Key != hex.EncodeToString(key) {
			t.Fatalf("%q: %+v, %v", text, i, err)
		}
	})
}
