package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
)

// runChecks is step 2e: each meta/checks/*.sql is asked of the frozen
// candidate, in the order of their names; a returned row refuses the commit.
// A check that cannot be run refuses it, too: it would otherwise pass for one
// that found nothing.
func (c *committing) runChecks(ctx context.Context, v *candidate) error {
	found, err := filepath.Glob(filepath.Join(c.w.MetaDir(), "checks", "*.sql"))
	if err != nil || len(found) == 0 {
		return err
	}
	slices.Sort(found)
	files := c.w.files(v.meta.ID).(committed)
	files.dir = c.building.Path()
	t := &versionTree{e: c.w.e, meta: v.meta, where: files}
	t.index = v.index
	t.index.build(t)
	for _, p := range found {
		name := "meta/checks/" + filepath.Base(p)
		sql, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		var row firstLine
		err = c.w.e.Query(ctx, t, QueryOptions{SQL: string(sql), Format: lake.JSONRows}, &row)
		switch {
		case row.done:
			return outcome.New(outcome.Refused, name+" returned a row: "+row.buf.String(), "mend the data that it names, or the check")
		case err != nil && outcome.Of(err) == outcome.Usage:
			return outcome.New(outcome.Refused, name+": "+outcome.Message(err), "mend the check, or remove it")
		case err != nil:
			return err
		}
	}
	return nil
}

var errEnough = errors.New("engine: one row is enough")

// firstLine takes the first line of what is written to it, and no more.
type firstLine struct {
	buf  bytes.Buffer
	done bool
}

// maxCheckRow bounds how much of a row a refusal quotes, in bytes.
const maxCheckRow = 400

func (f *firstLine) Write(b []byte) (int, error) {
	line, _, ended := bytes.Cut(b, []byte("\n"))
	f.buf.Write(line[:min(len(line), maxCheckRow-min(f.buf.Len(), maxCheckRow))])
	if f.done = ended || f.buf.Len() >= maxCheckRow; f.done {
		return 0, errEnough
	}
	return len(b), nil
}
