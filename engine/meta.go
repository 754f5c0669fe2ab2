package engine

import "encoding/json"

// metaOf is what a commit was told to put into meta of version.json.
func metaOf(pairs map[string]string) map[string]json.RawMessage {
	if len(pairs) == 0 {
		return nil
	}
	out := map[string]json.RawMessage{}
	for k, v := range pairs {
		b, err := json.Marshal(v)
		if err != nil {
			continue // a string always has a JSON form
		}
		out[k] = b
	}
	return out
}

// metaText is a value of meta for people: a text as it is, else its JSON.
func metaText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return oneLine(s)
	}
	return oneLine(string(v))
}
