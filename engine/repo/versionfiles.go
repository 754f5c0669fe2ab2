package repo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

const (
	// smallFile is the size in bytes up to which a file of a version is
	// verified in memory while it is read the first time.
	smallFile = 4 << 20
	// maxCached bounds the version.json bytes that are kept decoded.
	maxCached = 64 << 20
)

// ReadVersion reads version.json of a version and checks that its id is the
// folder's. One that is not there is ErrNoVersion. The result is shared: it
// must not be changed.
func (r *Repository) ReadVersion(ctx context.Context, id ID) (*Version, error) {
	r.mu.Lock()
	v, ok := r.versions[id]
	r.mu.Unlock()
	if ok {
		return v, nil
	}
	v, size, err := r.readVersion(ctx, id)
	if errors.Is(err, ErrNoVersion) {
		v, size, err = r.heldVersion(ctx, id, err)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cached += size; r.cached > maxCached {
		clear(r.versions)
		r.cached = size
	}
	r.versions[id] = v
	return v, nil
}

// heldVersion looks for a version.json that is not there in the mark of a
// garbage collection: one that was killed may have left it there alone. missing
// is the answer where it is not.
func (r *Repository) heldVersion(ctx context.Context, id ID, missing error) (*Version, int, error) {
	mark, _, err := readMark(ctx, r.store)
	if data := mark.Held[id]; err == nil && len(data) > 0 {
		if v, err := DecodeVersion(data, id); err == nil {
			return v, len(data), nil
		}
	}
	if err != nil && !notExist(err) && !errors.Is(err, blobstore.ErrPermission) { // a store may say that of what is not there
		return nil, 0, fmt.Errorf("read version %s: %w", id.Short(), err)
	}
	return nil, 0, missing
}

// readVersion reads past the cache; size is that of version.json in bytes.
func (r *Repository) readVersion(ctx context.Context, id ID) (v *Version, size int, err error) {
	if canonical, err := ParseID(string(id)); err != nil || canonical != id {
		return nil, 0, fmt.Errorf("read version: %w: %q", ErrBadID, clip(string(id)))
	}
	data, _, err := readSmall(ctx, r.store, VersionKey(id, VersionFile), maxVersion)
	if notExist(err) {
		return nil, 0, fail(ErrNoVersion, outcome.NotFound, nil, "", "%s has no version %s", r.store.URL(), id)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read version %s: %w", id.Short(), err)
	}
	v, err = DecodeVersion(data, id)
	if err != nil {
		return nil, 0, damaged(err, "version %s is damaged", id)
	}
	return v, len(data), nil
}

// OpenVersionFile opens a file of a version's folder from its start, after its
// bytes have been compared with the sha256 in version.json (invariant 4): a
// small file each time, a large one once for this Repository, which reads it
// twice then (FetchVersionFile does not). A file without a recorded sha256 is
// opened as it is. The caller closes the reader.
func (r *Repository) OpenVersionFile(ctx context.Context, id ID, name string) (io.ReadCloser, error) {
	key := VersionKey(id, name)
	rd, info, want, err := r.getVersionFile(ctx, id, name)
	if err != nil || want == "" {
		return rd, err
	}
	if info.Size <= smallFile {
		defer rd.Close()
		data, err := io.ReadAll(newVerifier(io.LimitReader(rd, smallFile+1), key, want))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	rd.Close()
	if err := r.VerifyVersionFile(ctx, id, name); err != nil {
		return nil, err
	}
	rd, _, _, err = r.getVersionFile(ctx, id, name)
	return rd, err
}

// VerifyVersionFile compares the bytes of a file of a version's folder with the
// sha256 in version.json, the first time it is asked. For callers who then read
// the object themselves, in pieces or in place.
func (r *Repository) VerifyVersionFile(ctx context.Context, id ID, name string) error {
	key := VersionKey(id, name)
	r.mu.Lock()
	done := r.verified[key]
	r.mu.Unlock()
	if done {
		return nil
	}
	rd, _, want, err := r.getVersionFile(ctx, id, name)
	if err != nil {
		return err
	}
	defer rd.Close()
	if want != "" {
		if _, err := io.Copy(io.Discard, newVerifier(rd, key, want)); err != nil {
			return fmt.Errorf("verify %s: %w", key, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verified[key] = true
	return nil
}

// FetchVersionFile copies a file of a version's folder to the local file dst,
// which must not exist, verified and fsynced. On error there is no dst.
func (r *Repository) FetchVersionFile(ctx context.Context, id ID, name, dst string) error {
	rd, _, want, err := r.getVersionFile(ctx, id, name)
	if err != nil {
		return err
	}
	defer rd.Close()
	var src io.Reader = rd
	if want != "" {
		src = newVerifier(rd, VersionKey(id, name), want)
	}
	if err := writeFile(dst, src); err != nil {
		return fmt.Errorf("fetch %s: %w", VersionKey(id, name), err)
	}
	return nil
}

// writeFile appears whole or not at all: a temporary file beside dst is linked
// to its name when it is complete.
func writeFile(dst string, src io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(dst), "."+filepath.Base(dst)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		os.Remove(f.Name())
	}()
	if _, err := io.Copy(f, src); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), dst); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(dst)); err != nil {
		os.Remove(dst)
		return err
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// ReadDataset reads dataset.json, verified; bytes are the stored ones, which a
// commit keeps when nothing else is said (SameDataset).
func (r *Repository) ReadDataset(ctx context.Context, id ID) (d *Dataset, data []byte, err error) {
	rd, err := r.OpenVersionFile(ctx, id, DatasetFile)
	if err != nil {
		return nil, nil, err
	}
	defer rd.Close()
	data, err = io.ReadAll(io.LimitReader(rd, maxDataset+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", VersionKey(id, DatasetFile), err)
	}
	if d, err = DecodeDataset(data); err != nil {
		return nil, nil, damaged(err, "version %s is damaged", id)
	}
	return d, data, nil
}

// ReadFiles reads files.json into an index, verified while it streams.
// ErrNoFile where the version has none, ErrIncomplete where another tool's says
// too little: then the catalog must be asked.
func (r *Repository) ReadFiles(ctx context.Context, id ID) (*Files, error) {
	key := VersionKey(id, FilesFile)
	rd, _, want, err := r.getVersionFile(ctx, id, FilesFile)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	v := newVerifier(rd, key, want)
	x, err := DecodeFiles(v, r.DataDir())
	if err == nil {
		return x, nil // the decoder has read to the end, so the checksum fits
	}
	// Damaged bytes usually do not even parse. The checksum is the better reason.
	if _, sumErr := io.Copy(io.Discard, v); errors.Is(sumErr, ErrDamaged) {
		return nil, sumErr
	}
	if errors.Is(err, ErrMalformed) {
		return nil, damaged(err, "version %s is damaged", id)
	}
	return nil, fmt.Errorf("read %s: %w", key, err)
}

// getVersionFile opens a file of a version's folder and says which sha256 it
// must have. A file that version.json names and that is not there is ErrDamaged;
// one that it does not name, ErrNoFile.
func (r *Repository) getVersionFile(ctx context.Context, id ID, name string) (io.ReadCloser, blobstore.Info, string, error) {
	v, err := r.ReadVersion(ctx, id)
	if err != nil {
		return nil, blobstore.Info{}, "", err
	}
	if err := checkFolderFile(name); err != nil {
		return nil, blobstore.Info{}, "", fmt.Errorf("open a file of version %s: %w", id.Short(), err)
	}
	want := v.Hash(name)
	rd, info, err := r.store.Get(ctx, VersionKey(id, name))
	switch {
	case notExist(err) && want != "":
		return nil, info, "", damaged(nil, "%s is damaged: version.json names it, but it is not there", VersionKey(id, name))
	case notExist(err):
		return nil, info, "", fail(ErrNoFile, outcome.NotFound, nil, "", "version %s has no %s", id.Short(), name)
	case err != nil:
		return nil, info, "", err
	}
	return rd, info, want, nil
}

// verifier passes bytes on and, at their end, compares their sha256: a reader
// who takes what came before io.EOF for good has compared it.
type verifier struct {
	src       io.Reader
	sum       hash.Hash
	key, want string
}

// newVerifier: an empty want compares nothing.
func newVerifier(src io.Reader, key, want string) *verifier {
	return &verifier{src: src, sum: sha256.New(), key: key, want: want}
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.src.Read(p)
	v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && v.want != "" {
		if got := hexOf(v.sum.Sum(nil)); got != v.want {
			return n, damaged(nil, "%s is damaged: its sha256 is %s, version.json says %s", v.key, got, v.want)
		}
	}
	return n, err
}
