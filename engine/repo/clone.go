package repo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// cloneFile marks a root that a clone is being written to. It goes when the
// clone is complete; a clone that was stopped goes on where it finds its own.
// Until fdl.json and HEAD are there, the last two objects written, the root is
// no repository to anybody.
const cloneFile = "clone.json"

type cloneMark struct {
	RepositoryID string `json:"repository_id"`
	From         string `json:"from"`
}

// BeginClone makes dst ready to take a copy of r. A root that holds anything but
// a clone of r that was stopped is refused (ErrAlready).
func (r *Repository) BeginClone(ctx context.Context, dst blobstore.Store) error {
	refuse := func(what string) error {
		return fail(ErrAlready, outcome.Conflict, nil, "choose an empty place; to bring a clone up to date: tarn fetch", "%s is not empty: %s", dst.URL(), what)
	}
	data, _, err := readSmall(ctx, dst, cloneFile, maxFormat)
	switch {
	case err == nil:
		var m cloneMark
		if json.Unmarshal(data, &m) != nil || m.RepositoryID != r.ID() {
			return refuse("it holds a part of a clone of another repository")
		}
		return nil
	case !notExist(err):
		return fmt.Errorf("look for an earlier clone: %w", err)
	}
	for info, err := range dst.List(ctx, "") {
		if err != nil {
			return fmt.Errorf("look into %s: %w", dst.URL(), err)
		}
		if strings.HasPrefix(info.Key, blobstore.ProbePrefix) {
			continue // of a probe that was stopped
		}
		return refuse("it has " + clip(info.Key))
	}
	text, err := json.Marshal(cloneMark{RepositoryID: r.ID(), From: r.URL()})
	if err != nil {
		return err
	}
	if _, err := blobstore.SwapConfirmed(ctx, dst, cloneFile, "", append(text, '\n')); err != nil {
		return fmt.Errorf("begin a clone in %s: %w", dst.URL(), err)
	}
	return nil
}

// FinishClone writes fdl.json and HEAD as r has them, after everything else,
// and takes the mark away.
func (r *Repository) FinishClone(ctx context.Context, dst blobstore.Store) error {
	for _, name := range []string{formatFile, headFile} {
		data, _, err := readSmall(ctx, r.store, name, maxFormat)
		if err != nil {
			return err
		}
		_, err = blobstore.SwapConfirmed(ctx, dst, name, "", data)
		if errors.Is(err, blobstore.ErrConflict) { // by an earlier try
			var there []byte
			if there, _, err = readSmall(ctx, dst, name, maxFormat); err == nil && name == formatFile && !bytes.Equal(there, data) {
				err = already(dst, name)
			}
		}
		if err != nil {
			return fmt.Errorf("finish the clone: %w", err)
		}
	}
	if err := dst.Delete(ctx, cloneFile); err != nil {
		if _, there := dst.Head(ctx, cloneFile); notExist(there) {
			return nil // only the answer was lost
		}
		return fmt.Errorf("finish the clone: %w", err)
	}
	return nil
}

// CopyData writes a stored file of r to dst, checked against files.json on the
// way. One of its size that is there is taken for it when sure says so: only a
// whole object ever has a name. copied is false when it was there.
func (r *Repository) CopyData(ctx context.Context, f *File, dst blobstore.Store, sure bool) (copied bool, err error) {
	if why := dataPathFault(f.Path, r.DataDir()); why != "" {
		return false, outcome.New(outcome.Refused, fmt.Sprintf("data file path %q %s", clip(f.Path), why), "")
	}
	if sure {
		switch info, err := dst.Head(ctx, f.Path); {
		case err == nil && info.Size == f.Bytes && (info.SHA256 == "" || f.SHA256 == "" || info.SHA256 == f.SHA256):
			return false, nil
		case err != nil && !notExist(err):
			return false, fmt.Errorf("look for %s: %w", f.Path, err)
		}
	}
	return true, copyObject(ctx, r.store, dst, f.Path, f.Bytes, f.SHA256)
}

// copyObject copies one write-once object; sum may be empty.
func copyObject(ctx context.Context, src, dst blobstore.Store, key string, size int64, sum string) error {
	body := blobstore.Body{Size: size, SHA256: sum, Open: func() (io.ReadCloser, error) {
		rd, _, err := src.Get(ctx, key)
		return rd, err
	}}
	_, err := blobstore.PutIfAbsentConfirmed(ctx, dst, key, body)
	switch {
	case errors.Is(err, blobstore.ErrExists):
		return fail(ErrDiffers, outcome.Conflict, nil, nextVerify, "%s is in %s already, with other content", key, dst.URL())
	case errors.Is(err, blobstore.ErrCorrupt):
		return damaged(err, "%s of %s is damaged", key, src.URL())
	case notExist(err):
		return damaged(nil, "%s is missing from %s", key, src.URL())
	case err != nil:
		return fmt.Errorf("copy %s: %w", key, err)
	}
	return nil
}

// CopyVersion copies the folder of a version to dst, in the order of the
// writing contract; whatever else lies in it goes along. Its data files are the
// caller's, and come first. One whose version.json is there is complete.
func (r *Repository) CopyVersion(ctx context.Context, v *Version, dst blobstore.Store) error {
	last := VersionKey(v.ID, VersionFile)
	switch _, err := dst.Head(ctx, last); {
	case err == nil:
		return nil
	case !notExist(err):
		return fmt.Errorf("look for version %s: %w", v.ID.Short(), err)
	}
	names, err := r.FolderNames(ctx, v)
	if err != nil {
		return err
	}
	for _, name := range names {
		key := VersionKey(v.ID, name)
		info, err := r.store.Head(ctx, key)
		if notExist(err) {
			err = damaged(nil, "version %s has lost its %s", v.ID.Short(), name)
		}
		if err == nil {
			err = copyObject(ctx, r.store, dst, key, info.Size, v.Hash(name))
		}
		if err != nil {
			return fmt.Errorf("copy version %s: %w", v.ID.Short(), err)
		}
	}
	return nil
}

// FolderNames lists the files of a version's folder in the order in which they
// are written: the catalog, further ones, JSON, version.json. Where the store
// cannot list, those that version.json names, and the JSON files that are there.
func (r *Repository) FolderNames(ctx context.Context, v *Version) ([]string, error) {
	names := []string{CatalogFile}
	add := func(name string) {
		if !slices.Contains(names, name) && name != VersionFile {
			names = append(names, name)
		}
	}
	for name := range v.SHA256 {
		add(name)
	}
	prefix := VersionKey(v.ID, "")
	for info, err := range r.store.List(ctx, prefix) {
		if errors.Is(err, blobstore.ErrUnsupported) {
			for _, name := range []string{DatasetFile, FilesFile} {
				if v.Hash(name) != "" {
					continue
				}
				if _, err := r.store.Head(ctx, prefix+name); err == nil {
					add(name)
				} else if !notExist(err) {
					return nil, fmt.Errorf("look for %s%s: %w", prefix, name, err)
				}
			}
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list version %s: %w", v.ID.Short(), err)
		}
		add(strings.TrimPrefix(info.Key, prefix))
	}
	rank := func(name string) int {
		switch name {
		case CatalogFile:
			return 0
		case DatasetFile, FilesFile:
			return 2
		}
		return 1
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := rank(a) - rank(b); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return append(names, VersionFile), nil
}
