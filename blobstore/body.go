package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// BytesBody is a Body of data, which the caller must not change afterwards.
func BytesBody(data []byte) Body {
	return Body{
		Size:   int64(len(data)),
		SHA256: hashBytes(data),
		Open:   func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	}
}

// FileBody is a Body of a local file that its owner will never change. sha is
// the hash in hex when it is known, else empty.
func FileBody(path string, size int64, sha string) Body {
	return Body{Size: size, SHA256: sha, Path: path}
}

// reader opens the content, whichever way the body gives it.
func (b Body) reader() (io.ReadCloser, error) {
	switch {
	case b.Open != nil:
		return b.Open()
	case b.Path != "":
		return os.Open(b.Path)
	default:
		return nil, fmt.Errorf("%w: body has neither Open nor Path", os.ErrInvalid)
	}
}

// copyTo writes the content to w and compares it with the size and the hash
// that were announced, so that a source that changed or broke off is never
// taken for an object.
func (b Body) copyTo(ctx context.Context, w io.Writer) error {
	r, err := b.reader()
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	n, err := copyContext(ctx, io.MultiWriter(w, h), r)
	if err != nil {
		return err
	}
	return b.verify(n, h)
}

func (b Body) verify(n int64, h hash.Hash) error {
	if n != b.Size {
		return fmt.Errorf("%w: the source has %d bytes, not the %d announced", ErrCorrupt, n, b.Size)
	}
	if got := hex.EncodeToString(h.Sum(nil)); b.SHA256 != "" && got != b.SHA256 {
		return fmt.Errorf("%w: the source has sha256 %s, not the %s announced", ErrCorrupt, got, b.SHA256)
	}
	return nil
}

// hashed is the body with its hash, which is read for where it is not known.
func (b Body) hashed(ctx context.Context) (Body, error) {
	if b.SHA256 != "" {
		return b, nil
	}
	h := sha256.New()
	if err := b.copyTo(ctx, h); err != nil {
		return b, err
	}
	b.SHA256 = hex.EncodeToString(h.Sum(nil))
	return b, nil
}

// sameAs reports whether r, an object of the size of the body, has the content
// of the body. By hash when the body names one, which spares reading it.
func (b Body) sameAs(ctx context.Context, r io.Reader) (bool, error) {
	b, err := b.hashed(ctx)
	if err != nil {
		return false, err
	}
	h := sha256.New()
	n, err := copyContext(ctx, h, r)
	if err != nil {
		return false, err
	}
	return n == b.Size && hex.EncodeToString(h.Sum(nil)) == b.SHA256, nil
}

// copyContext is io.Copy that stops between two pieces when ctx ends.
func copyContext(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	const piece = 4 << 20
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := io.CopyN(w, r, piece)
		total += n
		if errors.Is(err, io.EOF) { // shorter than a piece: the end
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func hashBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
