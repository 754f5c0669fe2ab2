package worker

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/tarnfs/tarn/engine/lake"
)

// warmTime is how long a DuckDB that looked at a dropped file is kept for the next one.
const warmTime = 2 * time.Second

// warm is a DuckDB kept from one request on dropped files to the next: to start
// and lock down a new one costs more than to read a small file, and a commit of
// many small files would hold up the next.
//
// What it may touch is the folders of the files, not the files alone, because a
// locked configuration cannot be widened. It runs nothing but our own SELECT
// and COPY on paths of the request: the content of a file is never SQL.
type warm struct {
	d    *duck
	l    limits
	dirs []string // sorted
	till time.Time
}

// warmDuck gives the DuckDB for the folders of paths. It belongs to the session.
func (s *session) warmDuck(ctx context.Context, l limits, paths ...string) (*duck, error) {
	var dirs []string
	for _, p := range paths {
		dirs = append(dirs, filepath.Dir(p))
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	if w := s.warm; w != nil && w.l == l && !slices.ContainsFunc(dirs, func(d string) bool { return !slices.Contains(w.dirs, d) }) {
		w.till = time.Now().Add(warmTime)
		return w.d, nil
	}
	s.cool()
	d, err := openDuck(ctx, l, files{dirs: dirs})
	if err != nil {
		return nil, err
	}
	s.warm = &warm{d: d, l: l, dirs: dirs, till: time.Now().Add(warmTime)}
	return d, nil
}

// used notes how a request on the warm DuckDB ended. What an error other than
// one of the file's content leaves behind is not known.
func (s *session) used(err error) error {
	var bad *lake.ValueError
	if err != nil && !errors.As(err, &bad) {
		s.cool()
	}
	return err
}

// cool ends the DuckDB that is kept, if any.
func (s *session) cool() {
	if s.warm != nil {
		s.warm.d.close()
		s.warm = nil
	}
}

// sniff answers OpSniff.
func (s *session) sniff(ctx context.Context, l limits, q lake.SniffRequest) (*lake.Sniffed, error) {
	d, err := s.warmDuck(ctx, l, q.Path)
	if err != nil {
		return nil, err
	}
	out, err := sniff(ctx, d, q)
	return out, s.used(err)
}

// convert answers OpConvert.
func (s *session) convert(ctx context.Context, l limits, q lake.ConvertRequest) (*lake.Converted, error) {
	d, err := s.warmDuck(ctx, l, q.Src, q.Dst)
	if err != nil {
		return nil, err
	}
	out, err := convert(ctx, d, q)
	return out, s.used(err)
}

// next waits for a frame, and ends the kept DuckDB when none comes.
func (s *session) next() (f frame, ok bool) {
	if s.warm == nil {
		f, ok = <-s.frames
		return f, ok
	}
	timer := time.NewTimer(time.Until(s.warm.till))
	defer timer.Stop()
	select {
	case f, ok = <-s.frames:
		return f, ok
	case <-timer.C:
		s.cool()
		f, ok = <-s.frames
		return f, ok
	}
}
