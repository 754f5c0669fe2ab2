package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
	"github.com/tarnfs/tarn/engine/work"
)

// convertedFile is one dropped file whose bytes are ready to be stored.
type convertedFile struct {
	step  lake.TakeStep
	path  string // local file with the bytes; "" when they are stored already
	sum   string // sha256 of the bytes that are stored, hex; taken has that of the dropped ones
	taken lake.Taken
}

// convert makes the bytes of each dropped file ready: as they are, or by the
// worker. Nothing outside pending/ is written. What was made is returned with
// an error, too.
func (c *committing) convert(ctx context.Context, plan *lake.Plan) ([]convertedFile, error) {
	out := make([]convertedFile, len(plan.Steps))
	err := eachAtOnce(len(out), func(i int) (err error) {
		out[i], err = c.convertOne(ctx, plan.Steps[i])
		return err
	})
	return out, err
}

func (c *committing) convertOne(ctx context.Context, step lake.TakeStep) (convertedFile, error) {
	s := c.sources[step.StageID]
	f := convertedFile{step: step, path: s.path, sum: s.SHA256}
	f.taken = lake.Taken{StageID: step.StageID, Footer: s.Footer, SHA256: s.SHA256}
	switch step.Mode {
	case lake.Reuse:
		f.path = ""
		f.taken.Bytes = s.Footer.Bytes
		return f, nil
	case lake.Pass:
		f.taken.Bytes = s.Footer.Bytes
		return f, nil
	}
	if made, ok := c.madeOf(step.StageID); ok {
		if sameConversion(made.step, step) {
			f.path, f.sum, f.taken = made.path, made.sum, made.taken
			return f, nil
		}
		c.dropMade(made)
	}
	// Beside the taken file: what a crash leaves goes the way of pending/.
	f.path = filepath.Join(filepath.Dir(s.path), "converted-"+step.StoredName)
	if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	_, err := c.w.e.worker.Convert(ctx, lake.ConvertRequest{
		Src: s.path, Format: step.Format, Dst: f.path, Columns: step.Columns, Missing: step.Missing,
	})
	var bad *lake.ValueError
	if errors.As(err, &bad) {
		return f, valueRefusal(step.Path, c.tableOf(step.StageID), bad, "fix or remove "+filepath.Base(step.Path))
	}
	if err != nil {
		return f, deskError(err)
	}
	c.keepMade(f) // also when it cannot be read: it is there to be removed
	err = c.readConverted(&f)
	c.keepMade(f)
	return f, err
}

// madeOf is what was converted of a staged file.
func (c *committing) madeOf(stageID string) (convertedFile, bool) {
	c.madeMu.Lock()
	defer c.madeMu.Unlock()
	f, ok := c.made[stageID]
	return f, ok
}

func (c *committing) keepMade(f convertedFile) {
	c.madeMu.Lock()
	defer c.madeMu.Unlock()
	if c.made == nil {
		c.made = map[string]convertedFile{}
	}
	c.made[f.step.StageID] = f
}

// sameConversion says whether a file that was converted for one plan is what
// another plan wants: its bytes do not depend on the name it gets.
func sameConversion(a, b lake.TakeStep) bool {
	return a.Mode == b.Mode && a.Format == b.Format && reflect.DeepEqual(a.Columns, b.Columns) && slices.Equal(a.Missing, b.Missing)
}

// ready says whether convert would find all its work done.
func (c *committing) ready(plan *lake.Plan) bool {
	return !slices.ContainsFunc(plan.Steps, func(s lake.TakeStep) bool {
		made, ok := c.madeOf(s.StageID)
		return s.Mode == lake.Convert && !(ok && sameConversion(made.step, s))
	})
}

// dropConverted removes what convert has written; what was adopted has a name
// of its own.
func (c *committing) dropConverted() {
	for _, f := range c.made { // nothing is converted any more
		c.dropMade(f)
	}
	c.stored = nil
}

func (c *committing) dropMade(f convertedFile) {
	c.madeMu.Lock()
	delete(c.made, f.step.StageID)
	c.madeMu.Unlock()
	if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.w.log.Warn("remove a converted file", keyPath, f.path, keyErr, err)
	}
}

// tableOf is the table that a staged file feeds.
func (c *committing) tableOf(stageID string) string {
	for i := range c.changes {
		if c.changes[i].StageID == stageID {
			return c.changes[i].Schema + "." + c.changes[i].Table
		}
	}
	return ""
}

// readConverted reads what the worker has written. The sha256 of the dropped
// bytes stays: the same file dropped again is known by it.
func (c *committing) readConverted(f *convertedFile) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	f.sum, f.taken.Bytes = hex.EncodeToString(h.Sum(nil)), st.Size()
	f.taken.Footer, err = parquet.Read(file, st.Size())
	return err
}

// adopt puts the bytes of new stored files in their place: the local data
// folder until the push, or, in a plain checkout, where the contract wants new
// data files at once: the repository's, but over HTTP.
func (c *committing) adopt(ctx context.Context, files []*convertedFile) error {
	w := c.w
	if w.plain != nil && !w.plain.local {
		for _, f := range files {
			key := w.e.repo.DataDir() + f.step.StoredPath
			if _, err := blobstore.PutIfAbsentConfirmed(ctx, w.e.store, key, blobstore.FileBody(f.path, f.taken.Bytes, f.sum)); err != nil {
				return err
			}
		}
		return nil
	}
	local := make([]work.Adoption, len(files))
	for i, f := range files {
		local[i] = work.Adoption{Src: f.path, Path: f.step.StoredPath}
	}
	err := w.generation().AdoptData(work.AdoptLink, local...)
	if errors.Is(err, os.ErrExist) {
		return outcome.Wrap(outcome.Internal, "a data file of this name is there already", err, "commit again")
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		c.adopted = append(c.adopted, f.step.StoredPath)
	}
	return nil
}
