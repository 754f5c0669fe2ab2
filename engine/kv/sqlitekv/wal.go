package sqlitekv

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// SQLite reads a -wal up to the first frame whose checksum is wrong and takes
// the rest for what a crash left of the last transaction. When a frame further
// ahead is damaged, acknowledged commits behind it are gone, and nobody is told.
// The two can be told apart: each commit is synced before the next is written,
// so what a crash leaves is one transaction; and each frame's checksum continues
// that of the frame before it. A wrong frame followed by frames that continue
// each other and hold the ends of two transactions is damage.
//
//	header, 32 bytes: magic, version, page size, number, salt 1, salt 2, checksum 1, 2
//	frame: page number, size of the file after a commit or 0, salt 1, salt 2, checksum 1, 2, page
//
// All are big-endian u32; the checksums are over words of the order that the
// last bit of the magic says (1: big-endian).
const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // or with the last bit set
)

// checkWAL looks for such damage in the -wal of path. One that is just being
// written may look like it, so it is asked again.
func checkWAL(path string) error {
	if mutant.Is(mutant.WALUnread) {
		return nil
	}
	var damage, err error
	for range 3 {
		if damage, err = walDamage(path + "-wal"); damage == nil || err != nil {
			return err
		}
	}
	return damage
}

func walDamage(path string) (damage, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	head := make([]byte, walHeader)
	if n, err := io.ReadFull(in, head); n < walHeader {
		return nil, ignoreEnd(err)
	}
	be := binary.BigEndian
	size := int64(be.Uint32(head[8:]))
	w := walSum{bigEndian: head[3]&1 == 1}
	w.add(head[:24])
	switch known := be.Uint32(head)&^1 == walMagic && size >= 512 && size <= 65536 && size&(size-1) == 0; {
	case known && w.is(head[24:]):
	case allZero(head): // made longer by a crash, and never written
		return nil, nil
	default:
		info, err := f.Stat()
		if err == nil && info.Size() >= walHeader+frameHeader {
			return fmt.Errorf("%w: %s: its header is damaged", kv.ErrCorrupt, path), nil
		}
		return nil, err
	}

	frame := make([]byte, frameHeader+size)
	bad, ends := int64(-1), 0 // the first wrong frame; transactions that end at it or behind
	var should walSum         // what its checksum should be
	for n := int64(0); ; n++ {
		if _, err := io.ReadFull(in, frame); err != nil {
			return nil, ignoreEnd(err)
		}
		next := w
		next.add(frame[:8])
		next.add(frame[frameHeader:])
		ours := string(frame[8:16]) == string(head[16:24]) // else it is of the -wal before this one
		right := ours && next.is(frame[16:24])
		switch {
		case bad < 0 && right:
		case bad < 0:
			bad, should = n, next
		case !ours, !right && n > bad+1:
			return nil, nil // nothing here continues anything
		case !right: // it may be the checksum alone that is damaged
			should.add(frame[:8])
			should.add(frame[frameHeader:])
			if right = should.is(frame[16:24]); !right {
				ends = 0
			}
		}
		if bad >= 0 && (right || n == bad) && be.Uint32(frame[4:]) != 0 {
			if ends++; ends == 2 {
				return fmt.Errorf("%w: %s: frame %d is damaged, and commits follow it", kv.ErrCorrupt, path, bad+1), nil
			}
		}
		// The next one continues what is written here, right or wrong.
		w.a, w.b = be.Uint32(frame[16:]), be.Uint32(frame[20:])
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// walSum is the running checksum.
type walSum struct {
	a, b      uint32
	bigEndian bool
}

func (s *walSum) add(b []byte) {
	word := binary.LittleEndian.Uint32
	if s.bigEndian {
		word = binary.BigEndian.Uint32
	}
	for ; len(b) >= 8; b = b[8:] {
		s.a += word(b) + s.b
		s.b += word(b[4:]) + s.a
	}
}

// is compares with a stored checksum.
func (s *walSum) is(stored []byte) bool {
	return s.a == binary.BigEndian.Uint32(stored) && s.b == binary.BigEndian.Uint32(stored[4:])
}
