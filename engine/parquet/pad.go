package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Pad grows the finished Parquet file at path to exactly size bytes by zeros
// between its last page and its footer, and fsyncs it. Every offset in a
// footer counts from the start of the file, so readers never see the gap.
//
// ErrTooBig when the file is already larger; then, and when it is not Parquet,
// it is left as it was. A crash in the middle leaves a damaged file: pad
// before the file gets its final name.
func Pad(path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("pad: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("pad %s: %w", path, err)
	}
	have := st.Size()
	footer, err := readFooterBytes(f, have)
	if err != nil {
		return fmt.Errorf("pad %s: %w", path, err)
	}
	if have > size {
		return fmt.Errorf("pad %s: %w: it has %d bytes, wanted %d", path, ErrTooBig, have, size)
	}
	if have < size {
		if err := move(f, footer, have, size); err != nil {
			return fmt.Errorf("pad %s: %w", path, err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("pad %s: %w", path, err)
	}
	return nil
}

// move writes the footer to the end of a file of size bytes and zeros where it was.
func move(f *os.File, footer []byte, have, size int64) error {
	tail := binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	tail = append(tail, magic...)
	oldStart, newStart := have-int64(len(tail)), size-int64(len(tail))
	if _, err := f.WriteAt(tail, newStart); err != nil {
		return err
	}
	end := min(have, newStart) // what the new footer has not overwritten
	_, err := io.CopyN(io.NewOffsetWriter(f, oldStart), zeros{}, end-oldStart)
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
