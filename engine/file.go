package engine

import (
	"io"
	"os"
)

// localFile is a File over one local file.
type localFile struct {
	*os.File
	size int64
}

func newLocalFile(f *os.File) (File, error) {
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &localFile{f, st.Size()}, nil
}

// openLocal opens a file of ours by path.
func openLocal(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return newLocalFile(f)
}

func (f *localFile) Size() int64         { return f.size }
func (f *localFile) Fd() (uintptr, bool) { return f.File.Fd(), true }

// bytesFile is a File over bytes in memory.
type bytesFile struct{ b []byte }

func (f bytesFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
func (f bytesFile) Size() int64         { return int64(len(f.b)) }
func (f bytesFile) Fd() (uintptr, bool) { return 0, false }
func (f bytesFile) Close() error        { return nil }
