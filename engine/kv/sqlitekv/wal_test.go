package sqlitekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
)

// killed is what a process that was killed after 20 commits leaves: the file,
// the -wal, and where in it each commit ends.
func killed(t *testing.T) (file, wal []byte, ends []int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	w, err := OpenWriter(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		var b kv.Batch
		for k := range 1 + i%4 {
			b.Put(fmt.Appendf(nil, "key%03d-%d", i, k), bytes.Repeat([]byte{byte(i)}, 3000))
		}
		if err := w.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(info.Size()))
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if wal, err = os.ReadFile(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file, wal, ends
}

// lastCommit opens for reading and for writing, and gives the last commit that is
// there; all before it must be there, too.
func lastCommit(t *testing.T, file, wal []byte) (int, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	if err := errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(path+"-wal", wal, 0o600), os.WriteFile(path+"-shm", make([]byte, 32768), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, readErr := OpenReader(t.Context(), path)
	if readErr == nil {
		r.Close()
	}
	w, err := OpenWriter(t.Context(), path, nil)
	if (readErr == nil) != (err == nil) {
		t.Fatalf("for reading %v, for writing %v", readErr, err)
	}
	if err != nil {
		return 0, err
	}
	defer w.Close()
	last := -1
	for i := range 20 {
		v, err := w.Get(t.Context(), fmt.Appendf(nil, "key%03d-0", i))
		if err != nil {
			t.Fatal(err)
		}
		if v == nil {
			continue
		}
		if last != i-1 {
			t.Fatalf("commit %d is there and %d is not", i, i-1)
		}
		last = i
	}
	return last, nil
}

// What a crash can leave of the -wal opens with every commit that is whole in
// it; damage before commits that were acknowledged is told.
func TestDamagedWAL(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	file, wal, ends := killed(t)
	if last, err := lastCommit(t, file, wal); err != nil || last != 19 {
		t.Fatalf("whole: commit %d, %v", last, err)
	}
	for i, end := range ends {
		for _, cut := range []int{end - 1, end - 4000, end, end + 30} {
			if cut > len(wal) || i > 0 && cut <= ends[i-1] {
				continue
			}
			want := i - 1
			if cut >= end {
				want = i
			}
			if last, err := lastCommit(t, file, wal[:cut]); err != nil || last != want {
				t.Errorf("cut at %d: commit %d, %v; want %d", cut, last, err, want)
			}
		}
	}
	told, torn := 0, 0
	places := []int{}
	for at := 0; at < len(wal); at += 4001 {
		places = append(places, at)
	}
	page := int(binary.BigEndian.Uint32(wal[8:]))
	for at := walHeader; at < len(wal); at += 5 * (frameHeader + page) {
		places = append(places, at+5, at+9, at+17, at+22) // of a commit, of a salt, of both checksums
	}
	for at := ends[17] - page - frameHeader; at < ends[18]-page; at += 3 { // the last frame that can be told
		if at < ends[17]-page || at > ends[18]-page-frameHeader {
			places = append(places, at)
		}
	}
	for _, at := range places {
		flipped := bytes.Clone(wal)
		flipped[at] ^= 0x10
		last, err := lastCommit(t, file, flipped)
		switch {
		case err == nil && last >= 18: // of the last one it cannot be told
			torn++
		case err == nil:
			t.Errorf("byte %d of %d flipped: commits after %d are gone, and nothing tells", at, len(wal), last)
		case !errors.Is(err, kv.ErrCorrupt):
			t.Errorf("byte %d flipped: %v", at, err)
		default:
			told++
		}
	}
	t.Logf("%d flips told, %d in the last commit", told, torn)
	if told == 0 {
		t.Error("the test shows nothing")
	}
}

// Frames of an earlier -wal behind the newest ones, and two crashes one after
// the other, are no damage.
func TestLeftoversInWAL(t *testing.T) {
	file, wal, ends := killed(t)
	// The salts of all frames behind commit 9 are of another time.
	old := bytes.Clone(wal)
	page := int(binary.BigEndian.Uint32(wal[8:]))
	for at := ends[9]; at < len(old); at += frameHeader + page {
		old[at+8] ^= 0xFF
	}
	if last, err := lastCommit(t, file, old); err != nil || last != 9 {
		t.Errorf("behind an earlier -wal: commit %d, %v", last, err)
	}
	// The frames of commit 10 are torn, those behind it continue nothing.
	twice := bytes.Clone(wal)
	for at := ends[9]; at < len(twice); at += frameHeader + page {
		twice[at+16] ^= byte(at)%255 + 1
	}
	if last, err := lastCommit(t, file, twice); err != nil || last != 9 {
		t.Errorf("after two crashes: commit %d, %v", last, err)
	}
}
