package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/tarnfs/tarn/blobstore"
)

// inMemory is the size in bytes up to which a body is held in memory.
const inMemory = 1 << 20

// upload is the body of a PUT. It is taken from the client as a whole, and
// compared with what was announced, before the store gets a byte of it: a
// store may read it more than once, and a slow client holds none of its locks.
type upload struct {
	from io.Reader
	size int64
	sum  string // hex; empty: learnt when it is taken
	dir  string // for the file

	mu    sync.Mutex // guards what follows
	taken bool
	err   error
	data  []byte
	file  *os.File // has no name: nothing is left when we are killed
}

// take reads the body; again, it says how that went.
func (u *upload) take() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.taken {
		u.err = u.takeLocked()
		u.taken = true
	}
	return u.err
}

func (u *upload) isTaken() bool {
	if !u.mu.TryLock() { // the client's turn
		return false
	}
	defer u.mu.Unlock()
	return u.taken
}

func (u *upload) takeLocked() error {
	h := sha256.New()
	var to io.Writer
	var memory bytes.Buffer
	if u.size <= inMemory {
		memory.Grow(int(u.size))
		to = &memory
	} else {
		f, err := os.CreateTemp(u.dir, "tarn-serve-*")
		if err != nil {
			return spoolFault(err)
		}
		u.file, to = f, f
		if err := os.Remove(f.Name()); err != nil {
			return spoolFault(err)
		}
	}
	n, err := io.Copy(io.MultiWriter(spooling{to}, h), io.LimitReader(u.from, u.size))
	var f *failure
	switch {
	case errors.As(err, &f):
		return err
	case err != nil:
		return bodyFault(err)
	case n != u.size:
		return bodyFault(io.ErrUnexpectedEOF)
	}
	got := hex.EncodeToString(h.Sum(nil))
	if u.sum != "" && got != u.sum {
		return no(http.StatusBadRequest, blobstore.CodeCorrupt, "what came has another sha256 than was announced")
	}
	u.sum, u.data = got, memory.Bytes()
	return nil
}

// open is blobstore.Body's.
func (u *upload) open() (io.ReadCloser, error) {
	if err := u.take(); err != nil {
		return nil, err
	}
	if u.file == nil {
		return io.NopCloser(bytes.NewReader(u.data)), nil
	}
	return io.NopCloser(io.NewSectionReader(u.file, 0, u.size)), nil
}

// all is the body in memory.
func (u *upload) all() ([]byte, error) {
	r, err := u.open()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func (u *upload) drop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.file != nil {
		closeAll(u.file)
		u.file = nil
	}
}

// spooling tells errors of our disk from those of the client's connection.
type spooling struct{ io.Writer }

func (s spooling) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	if err != nil {
		err = spoolFault(err)
	}
	return n, err
}

func spoolFault(err error) error {
	return &failure{http.StatusInsufficientStorage, blobstore.CodeFull, "the server has no room for bodies on their way", fmt.Errorf("spool: %w", err)}
}
