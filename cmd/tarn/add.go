package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

func addCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "add",
		Usage:     "copy files into the tables of a working folder, to be committed",
		ArgsUsage: "FILE...",
		Category:  catWork,
		Description: manual("Copies each FILE (Parquet, CSV, JSON lines) into tables/ of the working folder one is in, which is what cp\ndoes, and shows the status. A file makes or feeds the table of its name without the ending; with --to, TABLE.\nThe same name and the same bytes again change nothing; other bytes replace that file's rows. A file\nappears in tables/ whole or not at all.",
			"tarn add --to geo.towns more.csv",
			outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "`TABLE` to feed: schema.table, or the name of one in main; it is made if it is not there"},
		},
		Action: action(h, 1, 10000, func(c *cli.Context, k *call) error {
			return runAdd(c.Context, k, c.String("to"), c.Args().Slice())
		}),
	}
}

func runAdd(ctx context.Context, k *call, to string, files []string) error {
	p, err := k.find()
	if err != nil {
		return err
	}
	top, err := k.folderTop(ctx, p)
	if err != nil {
		return err
	}
	dir, err := tableFolder(to)
	if err != nil {
		return err
	}
	// All are looked at before the first is copied.
	paths := make([]string, len(files))
	for i, f := range files {
		if paths[i], err = k.absolute(f); err != nil {
			return err
		}
		if err := addable(paths[i]); err != nil {
			return err
		}
	}
	for _, f := range paths {
		if err := addFile(ctx, f, filepath.Join(top, dir)); err != nil {
			return fmt.Errorf("add %s: %w", f, err)
		}
	}
	f, err := k.openFolder(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(showStatus(ctx, k, f), f.Close())
}

// folderTop is the path of the working folder that a command stands in.
func (k *call) folderTop(ctx context.Context, p *place) (string, error) {
	if p.Kind == placeCheckout {
		return p.Dir, nil
	}
	if p.Kind != placeMount {
		_, err := k.openFolder(ctx, p) // says why not
		return "", err
	}
	doc, err := mountInfo(ctx, k.host, p)
	if err != nil {
		return "", err
	}
	branch, err := doc.folderAt(p.Dir, p.Rel)
	if err != nil {
		return "", err
	}
	return filepath.Join(doc.Work, branch), nil
}

// tableFolder is where in a working folder the files of table lie.
func tableFolder(table string) (string, error) {
	if table == "" {
		return "tables", nil
	}
	schema, name, ok := strings.Cut(table, ".")
	if !ok {
		schema, name = "main", table
	}
	for _, s := range []string{schema, name} {
		if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\x00") {
			return "", usageError("%q is no name of a table: give schema.table", table)
		}
		if why, ok := work.JunkDir(s); ok {
			return "", outcome.New(outcome.Refused, fmt.Sprintf("a folder named %s holds no data: %s", s, why), "choose another name for the table")
		}
	}
	return filepath.Join("tables", schema, name), nil
}

// addable refuses what would be copied in vain.
func addable(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return outcome.New(outcome.NotFound, path+" does not exist", "name a file that is there")
	case err != nil:
		return err
	case st.IsDir():
		return usageError("%s is a folder: name its files", path)
	case !st.Mode().IsRegular():
		return usageError("%s is no regular file", path)
	}
	if why, ok := work.JunkFile(filepath.Base(path)); ok {
		return outcome.New(outcome.Refused, path+" would be kept and never be data: "+why, "rename the file, then add it")
	}
	return nil
}

// addFile copies a file into dir under a name that is never data, and then
// gives it its own: a commit beside it takes the whole file or none of it.
func addFile(ctx context.Context, path, dir string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	out, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	_, err = io.Copy(out, &stoppable{ctx, in})
	err = errors.Join(err, out.Close())
	if err != nil {
		return err
	}
	return os.Rename(out.Name(), filepath.Join(dir, filepath.Base(path)))
}

// stoppable ends a copy when its context ends.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s *stoppable) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}
