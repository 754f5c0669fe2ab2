package repo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/tarnfs/tarn/engine/repo/internal/strictjson"
)

// ScanFiles reads files.json as a stream: one entry in memory at a time. Each
// entry is checked by itself; that no path comes twice, and that delete files
// have their data file, only DecodeFiles can tell. Paths must lie below dataDir,
// and a data_dir in the file must be the same. An error ends the iteration; the
// end of the text has been checked when there was none.
func ScanFiles(r io.Reader, dataDir string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		err := scanFiles(r, dataDir, nil, func(f File) bool { return yield(f, nil) })
		if err != nil && !errors.Is(err, errStop) {
			yield(File{}, err)
		}
	}
}

// DecodeFiles reads files.json into an index. It reads r to its end, so that a
// reader that verifies a checksum has seen all of it.
func DecodeFiles(r io.Reader, dataDir string) (*Files, error) {
	var list []File
	var more extra
	err := scanFiles(r, dataDir, &more, func(f File) bool {
		list = append(list, f)
		return true
	})
	if err != nil {
		return nil, err
	}
	x, err := indexFiles(dataDir, list)
	if err != nil {
		return nil, &malformedError{FilesFile, err}
	}
	x.extra = more
	return x, nil
}

// scanFiles calls yield for each entry until it returns false (errStop). Unknown
// fields of the file go to more, when it is not nil.
func scanFiles(src io.Reader, dataDir string, more *extra, yield func(File) bool) error {
	r := strictjson.NewReader(src, strictjson.Limits{Bytes: maxFiles, Value: maxValue})
	seen := false
	err := r.Object(func(key string) error {
		switch key {
		case "data_dir":
			dir := dataDir
			if err := optString(r, &dir); err != nil {
				return err
			}
			if dir != dataDir {
				return r.Errorf("%q is not the repository's %q", clip(dir), dataDir)
			}
			return nil
		case "files":
			seen = true
			return r.Array(func() error {
				f, err := scanFile(r, dataDir)
				if err == nil && !yield(f) {
					err = errStop
				}
				return err
			})
		}
		if more == nil {
			return r.Skip()
		}
		return keep(r, key, more)
	})
	if err == nil {
		err = r.End()
	}
	if err == nil && !seen {
		err = fmt.Errorf("%w: it has no list of files", ErrIncomplete)
	}
	return malformed(FilesFile, err)
}

// Fields that an entry must have; without them the index would be guessing.
const (
	hasPath = 1 << iota
	hasID
	hasDataFileID
	hasSchema
	hasTable
	hasRows
	hasBytes

	needData   = hasPath | hasID | hasSchema | hasTable | hasRows | hasBytes
	needDelete = hasPath | hasID | hasDataFileID | hasRows | hasBytes
)

func scanFile(r *strictjson.Reader, dataDir string) (File, error) {
	f := File{Kind: DataFile}
	has := 0
	err := r.Object(func(key string) error {
		null, err := r.Null()
		if null || err != nil {
			return err
		}
		switch key {
		case "path":
			has |= hasPath
			if f.Path, err = r.String(); err == nil {
				if why := dataPathFault(f.Path, dataDir); why != "" {
					return r.Errorf("%q %s", clip(f.Path), why)
				}
			}
		case "kind":
			var kind string
			kind, err = r.Name()
			f.Kind = Kind(kind)
		case "id":
			has |= hasID
			err = optCount(r, &f.ID)
		case "data_file_id":
			has |= hasDataFileID
			err = optCount(r, &f.DataFileID)
		case "schema":
			has |= hasSchema
			f.Schema, err = r.Name()
		case "table":
			has |= hasTable
			f.Table, err = r.Name()
		case "table_id":
			err = optCount(r, &f.TableID)
		case "rows":
			has |= hasRows
			err = optCount(r, &f.Rows)
		case "bytes":
			has |= hasBytes
			err = optCount(r, &f.Bytes)
		case "sha256":
			err = optHash(r, &f.SHA256)
		case "source_sha256":
			err = optHash(r, &f.SourceSHA256)
		case "logical":
			f.Logical, err = r.Bool()
		case "name":
			f.Name, err = r.String()
		default:
			err = keep(r, key, &f.Extra)
		}
		return err
	})
	if err != nil {
		return File{}, err
	}
	need := needData
	switch f.Kind {
	case DataFile:
	case DeleteFile:
		need = needDelete
	default:
		return File{}, r.Errorf("%s: kind %q is not known", clip(f.Path), clip(string(f.Kind)))
	}
	if has&need != need {
		return File{}, fmt.Errorf("%w: %v", ErrIncomplete, r.Errorf("the entry of %q", clip(f.Path)))
	}
	return f, nil
}

// Encode writes files.json in its one form (strictjson): the same bytes that a
// generic writer of that form gives, but one entry in memory at a time.
func (x *Files) Encode(w io.Writer) error {
	if err := x.encode(bufio.NewWriterSize(w, 64<<10)); err != nil {
		return fmt.Errorf("encode files.json: %w", err)
	}
	return nil
}

func (x *Files) encode(w *bufio.Writer) error {
	keys := []string{"data_dir", "files"}
	for k := range maps.Keys(x.extra) {
		if k != "data_dir" && k != "files" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var buf []byte
	for i, key := range keys {
		if i > 0 {
			buf = append(buf, ',')
		} else {
			buf = append(buf, '{')
		}
		buf = append(strictjson.AppendString(append(buf, "\n  "...), key), ": "...)
		var err error
		switch key {
		case "data_dir":
			buf, err = strictjson.AppendValue(buf, x.dataDir, 1)
		case "files":
			buf, err = x.encodeList(w, buf)
		default:
			buf, err = strictjson.AppendValue(buf, json.RawMessage(x.extra[key]), 1)
		}
		if err != nil {
			return err
		}
	}
	if _, err := w.Write(append(buf, "\n}\n"...)); err != nil {
		return err
	}
	return w.Flush()
}

// encodeList writes buf and the list, and returns what is still to be written.
func (x *Files) encodeList(w *bufio.Writer, buf []byte) ([]byte, error) {
	if len(x.list) == 0 {
		return append(buf, "[]"...), nil
	}
	buf = append(buf, '[')
	for i := range x.list {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, "\n    "...)
		var err error
		if buf, err = x.list[i].appendJSON(buf); err != nil {
			return nil, err
		}
		if _, err := w.Write(buf); err != nil {
			return nil, err
		}
		buf = buf[:0]
	}
	return append(buf, "\n  ]"...), nil
}

// appendJSON writes an entry at depth 2 with its keys in order. Entries with
// unknown fields take the generic way.
func (f *File) appendJSON(dst []byte) ([]byte, error) {
	if len(f.Extra) > 0 {
		return strictjson.AppendValue(dst, f.object(), 2)
	}
	text := func(key, s string) {
		dst = strictjson.AppendString(append(append(dst, key...), ": "...), s)
	}
	num := func(key string, n int64) {
		dst = strconv.AppendInt(append(append(dst, key...), ": "...), n, 10)
	}
	const sep = ",\n      "
	num("{\n      \"bytes\"", f.Bytes)
	if f.Kind == DeleteFile {
		num(sep+`"data_file_id"`, f.DataFileID)
	}
	num(sep+`"id"`, f.ID)
	text(sep+`"kind"`, string(f.Kind))
	if f.Kind == DataFile {
		dst = strconv.AppendBool(append(dst, sep+`"logical": `...), f.Logical)
	}
	if f.Name != "" {
		text(sep+`"name"`, f.Name)
	}
	text(sep+`"path"`, f.Path)
	num(sep+`"rows"`, f.Rows)
	if f.Kind == DataFile {
		text(sep+`"schema"`, f.Schema)
	}
	if f.SHA256 != "" {
		text(sep+`"sha256"`, f.SHA256)
	}
	if f.SourceSHA256 != "" {
		text(sep+`"source_sha256"`, f.SourceSHA256)
	}
	if f.Kind == DataFile {
		text(sep+`"table"`, f.Table)
		num(sep+`"table_id"`, f.TableID)
	}
	return append(dst, "\n    }"...), nil
}

func (f *File) object() strictjson.Object {
	o := strictjson.Object{"bytes": f.Bytes, "id": f.ID, "kind": string(f.Kind), "path": f.Path, "rows": f.Rows}
	if f.Kind == DataFile {
		o["logical"], o["schema"], o["table"], o["table_id"] = f.Logical, f.Schema, f.Table, f.TableID
	} else {
		o["data_file_id"] = f.DataFileID
	}
	for key, s := range map[string]string{"name": f.Name, "sha256": f.SHA256, "source_sha256": f.SourceSHA256} {
		if s != "" {
			o[key] = s
		}
	}
	o.Append(f.Extra)
	return o
}
