package engine

import "os"

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
