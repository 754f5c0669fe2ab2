package work_test

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/work"
)

// Programs go on writing while commits take files and give them back: nobody
// gets another error than EBUSY, and no file is lost, doubled or mixed up.
func TestWriteWhileTaking(t *testing.T) {
	b := newBase().add("main/t/a.csv=a")
	o := newOverlay(t, b)
	retry := func(op func() error) error {
		for range 5000 {
			if err := op(); !errors.Is(err, syscall.EBUSY) {
				return err
			}
			time.Sleep(100 * time.Microsecond)
		}
		return syscall.EBUSY
	}
	const writers, rounds = 3, 20
	errs := make([]error, writers)
	stop := make(chan struct{})
	var wg, taker sync.WaitGroup
	taker.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			cs, err := o.Staged()
			if err != nil {
				t.Error(err)
				return
			}
			taken, err := o.Take(cs)
			if errors.Is(err, work.ErrChanged) || errors.Is(err, work.ErrOpenForWrite) {
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			if err := taken.PutBack(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				tmp, final := fmt.Sprintf("main/t/.tmp%d", w), fmt.Sprintf("main/t/w%d.csv", w)
				err := retry(func() error { return write(o, b, tmp, fmt.Sprint(w, i)) })
				if err == nil {
					err = retry(func() error { return o.Rename(tmp, final, 0) })
				}
				if err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	taker.Wait()
	noErr(t, errs...)
	for w := range writers {
		text, err := read(o, b, fmt.Sprintf("main/t/w%d.csv", w))
		if want := fmt.Sprint(w, rounds-1); text != want || err != nil {
			t.Errorf("writer %d left %q, want %q, %v", w, text, want, err)
		}
	}
	wantStaged(t, o, "put main.t w0.csv", "put main.t w1.csv", "put main.t w2.csv")
}

// Listing a table of 100,000 files makes no system call for each of them.
func BenchmarkListLargeTable(bm *testing.B) {
	b := newBase()
	for i := range 100_000 {
		b.add(fmt.Sprintf("main/t/f%06d.parquet=", i))
	}
	files := b.Files("main", "t")
	f, err := work.Open(bm.TempDir(), nil)
	noErr(bm, err)
	bm.Cleanup(func() { noErr(bm, f.Close()) })
	o := work.NewOverlay(f.Current(), fixedBase{b, files})
	noErr(bm, o.Unlink("main/t/f000007.parquet"))
	for bm.Loop() {
		es, err := o.List("main/t")
		if err != nil || len(es) != 99_999 {
			bm.Fatal(len(es), err)
		}
	}
}

// fixedBase is a base whose one table was sorted before.
type fixedBase struct {
	*memBase
	files []work.BaseFile
}

func (b fixedBase) Files(string, string) []work.BaseFile { return b.files }
