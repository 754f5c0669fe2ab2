package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tarnfs/tarn/blobstore"
)

// maxPrefix is the longest prefix in bytes that a key can have, and a little.
const maxPrefix = blobstore.MaxKey + 1

// list answers GET FOLDER/?list=PREFIX, where the folder is empty for the
// repository itself, with one JSON document (blobstore.ListEntry),
// written as the store tells. One that cannot be finished breaks off: its end
// is missing, and the connection ends.
func (s *Server) list(a *answer, r *http.Request, folder, prefix string) error {
	a.key = folder + prefix
	if len(prefix) > maxPrefix {
		return no(http.StatusBadRequest, blobstore.CodeKey, "the prefix is longer than a key")
	}
	a.Header().Set("Content-Type", "application/json")
	a.Header().Set("Cache-Control", "no-store")
	stop := a.working(func() bool { return true })
	defer stop()
	w := bufio.NewWriterSize(a, 32<<10)
	lead := `{"objects": [` + "\n"
	for info, err := range s.store.List(r.Context(), folder+prefix) {
		if err != nil {
			return wrap("list", prefix, err)
		}
		if !s.layout.shows(info.Key) {
			continue
		}
		e := blobstore.ListEntry{Key: strings.TrimPrefix(info.Key, folder), Size: info.Size, Modified: info.ModTime.UTC(), SHA256: info.SHA256}
		if info.Version != "" {
			e.ETag = etag(info.Version)
		}
		line, err := json.Marshal(e)
		if err != nil {
			return wrap("list", info.Key, err)
		}
		if _, err := fmt.Fprintf(w, "%s%s", lead, line); err != nil {
			return wrap("list", prefix, err)
		}
		lead = ",\n"
	}
	end := "\n]}\n"
	if !strings.HasPrefix(lead, ",") {
		end = lead + "]}\n"
	}
	if _, err := w.WriteString(end); err != nil {
		return wrap("list", prefix, err)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	return wrap("list", prefix, w.Flush())
}
