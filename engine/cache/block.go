package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
)

// A block on disk:
//
//	payload    up to BlockSize bytes
//	magic      8 bytes "tarnblk1"
//	length     4 bytes, little endian: of the payload
//	checksum   4 bytes, little endian: CRC-32C of the id, the block's number as
//	           decimal text and the payload, so that a block under a wrong name
//	           does not pass either
//
// CRC-32C because it is computed by the processor at the speed of memory: it
// guards against disks and half-written files, not against people.
const (
	blockMagic   = "tarnblk1"
	blockTrailer = len(blockMagic) + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func blockSum(id string, n int64, data []byte) uint32 {
	sum := crc32.Update(0, castagnoli, []byte(id+"-"+strconv.FormatInt(n, 10)))
	return crc32.Update(sum, castagnoli, data)
}

func (c *Cache) blockPath(k blockKey) string {
	return filepath.Join(c.disk.dir, k.space, "blocks", k.id[:2], k.id+"-"+strconv.FormatInt(k.n, 10))
}

// saveBlock keeps a block, if it can.
func (c *Cache) saveBlock(k blockKey, data []byte) {
	trailer := append([]byte(blockMagic), make([]byte, 8)...)
	binary.LittleEndian.PutUint32(trailer[8:], uint32(len(data)))
	binary.LittleEndian.PutUint32(trailer[12:], blockSum(k.id, k.n, data))
	c.disk.put(k.space, c.blockPath(k), data, trailer)
}

// loadBlock reads a block that is kept, by itself or in the whole file. A
// damaged one is removed.
func (c *Cache) loadBlock(o *Object, k blockKey) ([]byte, bool) {
	path := c.blockPath(k)
	data, err := readBlock(path, k, o.blockLen(k.n, c.o.BlockSize))
	if errors.Is(err, errBadBlock) {
		c.log.Warn("a damaged block of the cache is fetched again", "path", path)
		c.disk.remove(path)
	}
	if err == nil {
		return data, true
	}
	return c.loadFromFile(o, k)
}

func readBlock(path string, k blockKey, size int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != size+int64(blockTrailer) {
		return nil, errBadBlock
	}
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, errBadBlock
	}
	data, trailer := b[:size:size], b[size:]
	if string(trailer[:8]) != blockMagic || binary.LittleEndian.Uint32(trailer[8:]) != uint32(size) ||
		binary.LittleEndian.Uint32(trailer[12:]) != blockSum(k.id, k.n, data) {
		return nil, errBadBlock
	}
	touch(path, st.ModTime())
	return data, nil
}

// hasBlock says whether a block is likely kept: a look at names.
func (c *Cache) hasBlock(o *Object, k blockKey) bool {
	if _, err := os.Stat(c.blockPath(k)); err == nil {
		return true
	}
	_, err := os.Stat(c.filePath(k.space, k.id, o.Key))
	return err == nil
}
