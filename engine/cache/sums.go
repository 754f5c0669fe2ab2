package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// The checksums of a whole file, beside it:
//
//	magic      8 bytes "tarnsum1"
//	block      4 bytes, little endian: bytes that one checksum covers
//	size       8 bytes, little endian: of the file
//	checksums  4 bytes each, little endian: CRC-32C of each block, the last may be shorter
//	own        4 bytes, little endian: CRC-32C of all before
const (
	sumsMagic  = "tarnsum1"
	sumsSuffix = ".sums"
	sumsHead   = len(sumsMagic) + 4 + 8
)

type sums struct {
	block, size int64
	list        []uint32
}

// sumFile reads r to its end.
func sumFile(r io.Reader, block int64) (*sums, error) {
	s := &sums{block: block}
	buf := make([]byte, block)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			s.size += int64(n)
			s.list = append(s.list, crc32.Checksum(buf[:n], castagnoli))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return s, nil
		case err != nil:
			return nil, err
		}
	}
}

func (s *sums) encode() []byte {
	b := []byte(sumsMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.block))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.size))
	for _, x := range s.list {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeSums(b []byte) (*sums, error) {
	if len(b) < sumsHead+4 || string(b[:len(sumsMagic)]) != sumsMagic ||
		binary.LittleEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return nil, errBadBlock
	}
	s := &sums{block: int64(binary.LittleEndian.Uint32(b[8:])), size: int64(binary.LittleEndian.Uint64(b[12:]))}
	list := b[sumsHead : len(b)-4]
	if s.block <= 0 || s.size < 0 || len(list)%4 != 0 || int64(len(list)/4) != (s.size+s.block-1)/s.block {
		return nil, errBadBlock
	}
	for ; len(list) > 0; list = list[4:] {
		s.list = append(s.list, binary.LittleEndian.Uint32(list))
	}
	return s, nil
}

// verify compares all of f.
func (s *sums) verify(f *os.File) error {
	got, err := sumFile(io.NewSectionReader(f, 0, s.size+1), s.block)
	if err != nil {
		return err
	}
	if got.size != s.size {
		return fmt.Errorf("%w: %d bytes instead of %d", errBadBlock, got.size, s.size)
	}
	for i, x := range s.list {
		if got.list[i] != x {
			return fmt.Errorf("%w at %d", errBadBlock, int64(i)*s.block)
		}
	}
	return nil
}

// filePath is where a whole file is kept; key gives it its suffix.
func (c *Cache) filePath(space, id, key string) string {
	return filepath.Join(c.disk.dir, space, "files", id+suffix(key))
}

func sumsPath(file string) string { return file[:len(file)-len(filepath.Ext(file))] + sumsSuffix }

// sumsOf reads the checksums of a whole file.
func (c *Cache) sumsOf(file string) (*sums, error) {
	c.mu.Lock()
	s, ok := c.sums.Get(file)
	c.mu.Unlock()
	if ok {
		return s, nil
	}
	b, err := os.ReadFile(sumsPath(file))
	if err != nil {
		return nil, err
	}
	if s, err = decodeSums(b); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.sums.Add(file, s)
	c.mu.Unlock()
	return s, nil
}

// loadFromFile reads a block out of a whole file, compared with its checksum.
func (c *Cache) loadFromFile(o *Object, k blockKey) ([]byte, bool) {
	path := c.filePath(k.space, k.id, o.Key)
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	s, err := c.sumsOf(path)
	if err != nil || s.block != c.o.BlockSize || s.size != o.Size {
		return nil, false
	}
	data := make([]byte, o.blockLen(k.n, c.o.BlockSize))
	if _, err := f.ReadAt(data, k.n*c.o.BlockSize); err != nil || crc32.Checksum(data, castagnoli) != s.list[k.n] {
		c.log.Warn("a damaged file of the cache is not used", "path", path)
		c.dropFile(path)
		return nil, false
	}
	if st, err := f.Stat(); err == nil {
		touch(path, st.ModTime())
	}
	return data, true
}

// dropFile removes a whole file that is damaged. Who has it open keeps it.
func (c *Cache) dropFile(path string) {
	c.mu.Lock()
	c.sums.Remove(path)
	delete(c.verified, path)
	c.mu.Unlock()
	c.disk.remove(path)
	c.disk.remove(sumsPath(path))
}
