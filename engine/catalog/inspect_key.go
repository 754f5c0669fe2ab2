package catalog

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/outcome"
)

// KeyInfo is one key of a store and what is under it.
type KeyInfo struct {
	Key     string `json:"key"`             // hex
	Name    string `json:"name,omitempty"`  // as counter:snapshot; "" for a key of no known shape
	Found   bool   `json:"found"`           // false: there is none; a counter then counts as 0
	Value   string `json:"value,omitempty"` // hex
	Form    string `json:"form,omitempty"`  // "tarn", "rocklake", or "bare" for a value without envelope
	Decoded any    `json:"decoded,omitempty"`
	// Problem is why the value could not be decoded.
	Problem string `json:"problem,omitempty"`
}

// counterNames are what the global counters are called in ParseKeyName.
var counterNames = map[string][]byte{
	"snapshot": keys.CounterSnapshot(), "catalog": keys.CounterCatalog(), "file": keys.CounterFile(),
}

// ParseKeyName reads a key as people write it: hex (fe01), a counter
// (counter:snapshot, counter:catalog, counter:file, counter:column/42) or a
// system key (sys:writer-epoch, sys:tarn-journal:7).
func ParseKeyName(text string) ([]byte, error) {
	kind, rest, named := strings.Cut(text, ":")
	if !named {
		if b, err := hex.DecodeString(text); err == nil && len(b) > 0 {
			return b, nil
		}
		return nil, badKey(text)
	}
	switch kind {
	case "counter":
		if table, ok := strings.CutPrefix(rest, "column/"); ok {
			if n, err := strconv.ParseUint(table, 10, 64); err == nil {
				return keys.CounterColumn(n), nil
			}
		} else if key, ok := counterNames[rest]; ok {
			return key, nil
		}
	case "sys":
		for _, suffix := range []string{keys.SuffixJournal, keys.SuffixAudit} {
			if number, ok := strings.CutPrefix(rest, suffix); ok {
				n, err := strconv.ParseUint(number, 10, 64)
				if err != nil {
					return nil, badKey(text)
				}
				if suffix == keys.SuffixAudit {
					return keys.Audit(n), nil
				}
				return keys.Journal(n), nil
			}
		}
		if sum, ok := strings.CutPrefix(rest, keys.SuffixSource); ok {
			if b, err := hex.DecodeString(sum); err == nil && len(b) == 32 {
				return keys.Source([32]byte(b)), nil
			}
		} else if rest != "" {
			return keys.System(rest), nil
		}
	}
	return nil, badKey(text)
}

func badKey(text string) error {
	return outcome.New(outcome.Usage, fmt.Sprintf("not a key: %q", text), "write hex such as fe01, or counter:snapshot, counter:column/42, sys:writer-epoch")
}

// InspectKey reads one key and says what is under it.
func InspectKey(ctx context.Context, view kv.View, key []byte) (*KeyInfo, error) {
	raw, err := view.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read key %x: %w", key, err)
	}
	info := &KeyInfo{Key: hex.EncodeToString(key), Found: raw != nil}
	k, t, keyErr := ParseKey(key)
	switch {
	case keyErr == nil:
		info.Name = k.String()
	case len(key) > 0 && byTag[key[0]] != nil:
		rock, err := isRockLake(ctx, view)
		if err != nil {
			return nil, fmt.Errorf("read format version: %w", err)
		}
		if rock {
			t = byTag[key[0]]
			info.Name = t.Name
		}
	}
	if raw == nil {
		return info, nil
	}
	info.Value = hex.EncodeToString(raw)
	if err := info.decode(k, t, key, raw); err != nil {
		info.Problem = err.Error()
	}
	return info, nil
}

func (i *KeyInfo) decode(k keys.Key, t *Table, key, raw []byte) error {
	if k.Tag == keys.TagSystem && (k.Suffix == keys.SuffixWriterNonce || k.Suffix == keys.SuffixOwner) {
		i.Form, i.Decoded = "bare", string(raw)
		return nil
	}
	if len(key) == 0 {
		return keys.ErrMalformed
	}
	payload, rock, err := keys.Open(key[0], raw)
	if err != nil {
		return err
	}
	i.Form = "tarn"
	if rock {
		i.Form = "rocklake"
	}
	if t != nil {
		row, err := t.DecodeRow(raw)
		if err != nil {
			return err
		}
		fields := make(map[string]any, len(row))
		for at, c := range t.Columns {
			fields[c.Name] = row[at]
		}
		i.Decoded = fields
		return nil
	}
	switch {
	case k.Tag == keys.TagCounter, key[0] == keys.TagCounter:
		return i.number(keys.OpenU64(key[0], raw))
	case k.Tag != keys.TagSystem:
		return nil // a key of no known shape: its bytes are all there is to say
	}
	switch k.Suffix {
	case keys.SuffixFormatVersion:
		n, _, err := keys.OpenU32(keys.TagSystem, raw)
		return i.number(uint64(n), err)
	case keys.SuffixWriterEpoch, keys.SuffixRetainFrom, keys.SuffixVersion:
		return i.number(keys.OpenU64(keys.TagSystem, raw))
	case keys.SuffixNote:
		i.Decoded = string(payload)
		return nil
	}
	var v any
	if err := json.Unmarshal(payload, &v); err != nil {
		return err
	}
	i.Decoded = v
	return nil
}

func (i *KeyInfo) number(n uint64, err error) error {
	if err == nil {
		i.Decoded = n
	}
	return err
}

// Text is the key, its value and what it means, a line each.
func (i *KeyInfo) Text() string {
	var b strings.Builder
	name := i.Name
	if name == "" {
		name = "of no known shape"
	}
	fmt.Fprintf(&b, "key     %s  %s\n", i.Key, name)
	if !i.Found {
		b.WriteString("value   absent")
		if strings.HasPrefix(i.Name, "counter:") {
			b.WriteString(", which counts as 0")
		}
		b.WriteByte('\n')
		return b.String()
	}
	fmt.Fprintf(&b, "value   %s", i.Value)
	if i.Form != "" {
		fmt.Fprintf(&b, "  (%s)", i.Form)
	}
	b.WriteByte('\n')
	switch {
	case i.Problem != "":
		fmt.Fprintf(&b, "means   nothing that can be read: %s\n", i.Problem)
	case i.Decoded != nil:
		text, err := json.Marshal(i.Decoded)
		if err != nil {
			text = fmt.Append(nil, i.Decoded)
		}
		fmt.Fprintf(&b, "means   %s\n", text)
	}
	return b.String()
}
