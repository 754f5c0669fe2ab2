package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// source is what is known of one dropped file.
type source struct {
	lake.Source
	path string // absolute
}

// formats are the suffixes that are data. A file without one is looked at for
// Parquet's magic bytes.
var formats = map[string]lake.Format{
	".parquet": lake.Parquet, ".pq": lake.Parquet,
	".csv": lake.CSV, ".tsv": lake.CSV,
	".json": lake.JSON, ".jsonl": lake.JSON, ".ndjson": lake.JSON,
}

// packed are suffixes of whole files that only have to be unpacked.
var packed = []string{".gz", ".zst", ".bz2", ".xz", ".zip"}

// readSource looks at a dropped file: its form, columns and rows, and the
// sha256 of its bytes when hash is asked for.
func (e *Engine) readSource(ctx context.Context, c *work.Change, hash bool) (*source, error) {
	s := &source{path: c.Real}
	f, err := os.Open(c.Real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	fix := "fix or remove " + c.Name
	format, known := formats[strings.ToLower(filepath.Ext(c.Name))]
	if !known && slices.Contains(packed, strings.ToLower(filepath.Ext(c.Name))) {
		return nil, outcome.New(outcome.Refused, c.Path+" is compressed as a whole: the files of a table are Parquet, CSV or JSON lines", "unpack "+c.Name)
	}
	if !known {
		return nil, outcome.New(outcome.Refused, c.Path+" is not Parquet, CSV or JSON lines", fix)
	}
	if st.Size() == 0 {
		return nil, outcome.New(outcome.Refused, c.Path+" is empty", fix)
	}
	s.Format = format
	if hash {
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return nil, err
		}
		s.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	if format == lake.Parquet {
		if s.Footer, err = parquet.Read(f, st.Size()); err != nil {
			return nil, parquetRefusal(c.Path, fix, err)
		}
		s.Rows = s.Footer.Rows
		return s, nil
	}
	sniffed, err := e.sniff(ctx, c.Real, format, s.SHA256)
	var bad *lake.ValueError
	if errors.As(err, &bad) {
		return nil, valueRefusal(c.Path, "", bad, fix)
	}
	if err != nil {
		return nil, deskError(err)
	}
	s.Columns, s.Rows = sniffed.Columns, sniffed.Rows
	return s, nil
}

// parquetRefusal says what is wrong with a dropped Parquet file.
func parquetRefusal(path, fix string, err error) error {
	return outcome.New(outcome.Refused, path+": "+strings.TrimPrefix(err.Error(), "parquet: "), fix)
}

// valueRefusal says which value of a text file does not fit.
func valueRefusal(path, table string, v *lake.ValueError, fix string) error {
	what := path
	switch {
	case v.Column != "" && v.Wanted != "":
		what += fmt.Sprintf(" line %d, column %s: %q is not a %s", v.Line, v.Column, v.Value, v.Wanted)
	case v.Line > 0:
		line := fmt.Sprintf("line %d: ", v.Line)
		what += " " + line + strings.TrimPrefix(oneLine(v.Reason), line)
	default:
		what += ": " + oneLine(v.Reason)
	}
	if table != "" && v.Wanted != "" {
		what += " (wanted by table " + table + ")"
	}
	return outcome.New(outcome.Refused, what, fix)
}

// checkMagic finds fault with a stored file that is not Parquet from end to end.
func checkMagic(f File) error {
	if f.Size() == 0 {
		return errors.New("it is empty")
	}
	_, err := parquet.Read(f, f.Size())
	if errors.Is(err, parquet.ErrUnsupportedType) {
		return nil // a type that DuckDB reads and we do not
	}
	return err
}

// readSources looks at every dropped file of a commit.
func (c *committing) readSources(ctx context.Context) error {
	found := make([]*source, len(c.changes))
	err := eachAtOnce(len(c.changes), func(i int) (err error) {
		if ch := &c.changes[i]; ch.Kind == work.Put {
			found[i], err = c.w.e.readSource(ctx, ch, true)
		}
		return err
	})
	c.sources = map[string]*source{}
	for i, s := range found {
		if s != nil {
			c.sources[c.changes[i].StageID] = s
		}
	}
	return err
}

// sourceWidth is how many dropped files are read or converted at once: as many
// as there are workers for it.
const sourceWidth = 2

// eachAtOnce calls do for 0 to n-1, several at once and in that order. The error
// is that of the least number, whoever was first: the same files are refused
// with the same words each time. After an error none is begun.
func eachAtOnce(n int, do func(i int) error) error {
	var failed atomic.Bool
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(sourceWidth)
	for i := range n {
		if failed.Load() {
			break
		}
		g.Go(func() error {
			if errs[i] = do(i); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait() // errs has them
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// planChanges decides what staged changes mean for the desk as it is now.
// sources are by stage id. The state is what the plan was made from.
func (w *Work) planChanges(ctx context.Context, changes []work.Change, sources map[string]*source, opts WorkOptions) (*lake.Plan, *lake.State, error) {
	if len(changes) == 0 {
		return &lake.Plan{}, nil, nil
	}
	tx, err := w.begin(ctx, lake.ReadTx)
	if err != nil {
		return nil, nil, err
	}
	defer tx.Rollback(ctx)
	return w.planIn(ctx, tx, changes, sources, opts)
}

// planIn is planChanges in a transaction of the caller.
func (w *Work) planIn(ctx context.Context, tx lake.Tx, changes []work.Change, sources map[string]*source, opts WorkOptions) (*lake.Plan, *lake.State, error) {
	if len(changes) == 0 {
		return &lake.Plan{}, nil, nil // the state of a large catalog is not read for nothing
	}
	st, err := lake.Load(ctx, tx)
	if err != nil {
		return nil, nil, deskError(err)
	}
	restored, err := w.restored(ctx)
	if err != nil {
		return nil, nil, err
	}
	edits := make([]lake.Edit, 0, len(changes))
	for i := range changes {
		e, err := w.edit(ctx, &changes[i], sources)
		if err != nil {
			return nil, nil, err
		}
		e.Restored = e.Kind == lake.EditPut && e.Source.SHA256 != "" && restored[e.Path] == e.Source.SHA256
		edits = append(edits, e)
	}
	o := lake.PlanOptions{AllowSchemaChange: opts.AllowSchemaChange, NextColumn: map[int64]int64{}}
	base, err := w.ledger.Base(ctx)
	if err != nil {
		return nil, nil, err
	}
	snap, ok, err := w.ledger.SnapshotAt(ctx, base.Snapshot)
	if err != nil {
		return nil, nil, err
	}
	if ok {
		o.BaseSnapshot, o.BaseNextFileID = snap.SnapshotID, snap.NextFileID
	}
	for _, s := range st.Schemas {
		for _, t := range s.Tables {
			next, err := w.ledger.NextColumn(ctx, uint64(t.TableID))
			if err != nil {
				return nil, nil, err
			}
			o.NextColumn[t.TableID] = int64(next)
		}
	}
	p, err := lake.NewPlan(st, edits, o)
	return p, st, err
}

// edit puts a change of the user's folders into the words of the catalog.
func (w *Work) edit(ctx context.Context, c *work.Change, sources map[string]*source) (lake.Edit, error) {
	e := lake.Edit{Schema: c.Schema, Table: c.Table, Name: c.Name, From: c.From, StageID: c.StageID, Path: c.Path}
	switch c.Kind {
	case work.Put:
		e.Kind = lake.EditPut
		s := sources[c.StageID]
		e.Source = s.Source
		if s.Footer != nil {
			reuse, err := w.stored(ctx, s.SHA256)
			if err != nil {
				return e, err
			}
			e.Reuse = reuse
		}
	case work.Remove:
		e.Kind = lake.EditRemove
	case work.RenameFile:
		e.Kind = lake.EditRenameFile
	case work.DropTable:
		e.Kind, e.Again = lake.EditDropTable, c.Again
	case work.RenameTable:
		e.Kind, e.From = lake.EditRenameTable, c.FromTable
	}
	if e.Path == "" {
		e.Path = strings.TrimSuffix("tables/"+c.Schema+"/"+c.Table+"/"+c.Name, "/")
	}
	if c.Base != nil {
		e.Base = &lake.BaseRef{DataFileID: c.Base.DataFileID, Path: strings.TrimPrefix(c.Base.Path, w.e.repo.DataDir()), SHA256: c.Base.SHA256}
		return e, nil
	}
	if c.Kind == work.Put {
		ref, err := w.shownAs(ctx, c)
		if err != nil {
			return e, err
		}
		e.Base = ref
	}
	return e, nil
}

// shownAs is the file that the base shows under a dropped file's stem. Its
// stored bytes dropped again, as rsync from a tag or an editor that saves
// nothing new does, are no change, whatever file the rows once came from.
func (w *Work) shownAs(ctx context.Context, c *work.Change) (*lake.BaseRef, error) {
	ix, err := w.baseTree().loaded(ctx)
	if err != nil {
		return nil, err
	}
	stem := Stem(c.Name)
	for _, f := range ix.shown[c.Schema+"/"+c.Table] {
		if Stem(f.Name) == stem {
			return &lake.BaseRef{DataFileID: f.DataFileID, Path: strings.TrimPrefix(f.Path, w.e.repo.DataDir()), SHA256: f.SHA256}, nil
		}
	}
	return nil, nil
}

// stored finds a stored file of the history with these bytes, that is still
// there: it is named again instead of being stored twice. A plain checkout
// makes a copy, because DuckDB's cleanup would delete a file named twice.
func (w *Work) stored(ctx context.Context, sum string) (*lake.ReusedFile, error) {
	if w.plain != nil {
		return nil, nil
	}
	if err := w.indexHistory(ctx); err != nil {
		return nil, err
	}
	ref, ok, err := w.ledger.FindSource(ctx, sum)
	if err != nil || !ok {
		return nil, err
	}
	f, err := w.files("").openData(ctx, ref.Path)
	if err != nil {
		return nil, nil // gone meanwhile: stored anew
	}
	defer f.Close()
	if f.Size() != ref.Bytes {
		return nil, nil
	}
	return &lake.ReusedFile{Path: strings.TrimPrefix(ref.Path, w.e.repo.DataDir()), SHA256: sum}, nil
}

const noteIndexed = "indexed-version"

// indexHistory enters the stored files of the base's history into the ledger's
// index by sha256, back to the version where the last call began.
func (w *Work) indexHistory(ctx context.Context) error {
	until, err := w.ledger.GetNote(ctx, noteIndexed)
	if err != nil {
		return err
	}
	tip := w.baseTree().ID()
	if string(tip) == until || tip == "" {
		return nil
	}
	known := map[string]bool{}
	for id := tip; id != "" && string(id) != until; {
		tree, err := w.treeOf(ctx, id)
		if err != nil {
			return err
		}
		ix, err := tree.loaded(ctx)
		if err != nil {
			return err
		}
		var list []catalog.Source
		for f := range ix.files.All() {
			if f.SHA256 != "" && !known[f.SHA256] {
				known[f.SHA256] = true
				list = append(list, storedSource(f))
			}
		}
		if err := w.ledger.PutSources(ctx, list); err != nil {
			return err
		}
		id = ""
		if len(tree.meta.Parents) > 0 {
			id = tree.meta.Parents[0]
		}
	}
	return w.ledger.SetNote(ctx, noteIndexed, string(tip))
}

func storedSource(f *repo.File) catalog.Source {
	return catalog.Source{SHA256: f.SHA256, Ref: catalog.SourceRef{Path: f.Path, Rows: f.Rows, Bytes: f.Bytes}}
}

// previewKey is a staged file as it was when it was looked at.
type previewKey struct {
	path string
	size int64
	mod  time.Time
}

type previewed struct {
	s   *source
	err error
}

// maxPreviewed bounds what status remembers of staged files, in columns: some
// 200 bytes each.
const maxPreviewed = 100_000

// preview is what a staged file holds, read once as long as it stays as it is,
// so that status does not read it again.
func (w *Work) preview(c *work.Change, read func() (*source, error)) (*source, error) {
	k := previewKey{c.Real, c.Size, c.ModTime}
	if got, ok := w.previews.get(k); ok {
		return got.s, got.err
	}
	s, err := read()
	if err != nil && !errors.As(err, new(*outcome.Error)) {
		return nil, err // not the file's fault: look again next time
	}
	weight := 1
	if s != nil {
		weight += len(s.Columns)
		if s.Footer != nil {
			weight += len(s.Footer.Leaves)
		}
	}
	w.previews.put(k, previewed{s, err}, weight, maxPreviewed)
	return s, err
}

// sniffKey is the content of a text file: what it holds follows from that alone.
type sniffKey struct {
	sha256 string
	format lake.Format
}

// maxSniffed bounds what is remembered of text files, in columns.
const maxSniffed = 100_000

// sniff finds the columns and rows of a text file. With a sum it is asked once
// for the same bytes: by status, and by the commit that takes the file.
func (e *Engine) sniff(ctx context.Context, path string, format lake.Format, sum string) (*lake.Sniffed, error) {
	k := sniffKey{sum, format}
	if got, ok := e.sniffed.get(k); ok && sum != "" {
		return got, nil
	}
	got, err := e.worker.Sniff(ctx, lake.SniffRequest{Path: path, Format: format})
	if err == nil && sum != "" {
		e.sniffed.put(k, got, 1+len(got.Columns), maxSniffed)
	}
	return got, err
}
