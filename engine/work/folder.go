package work

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
)

// format is the layout this code reads and writes; part of the format, see
// doc.go. A folder with a greater number is refused.
const format = 1

// trashTerm is how long what was reset can be brought back.
const trashTerm = 7 * 24 * time.Hour

// Options of Open; nil and the zero value work.
type Options struct {
	Logger  *slog.Logger     // nil: discard
	Clock   func() time.Time // nil: time.Now
	Keep    time.Duration    // how long trash is kept; 0: 7 days
	Command string           // who holds the folder, for the one that is refused; "": the program's name
	// AnyDisk takes a folder on a network or FUSE file system too: for tests
	// with a disk of their own.
	AnyDisk bool
	// Step is called with a name before each change on disk that a crash could
	// fall before. For fault injection; nil: nothing.
	Step func(name string)
}

// Folder is an open working folder. Safe for concurrent use.
type Folder struct {
	dir  string
	lock *os.File
	log  *slog.Logger
	now  func() time.Time
	keep time.Duration
	step func(string)

	mu      sync.Mutex // guards current, CURRENT, gen/ and trash/; acquire before Generation.mu
	current *Generation

	fileMu sync.Mutex // guards the making of KindFile entries in trash/; last of all locks
}

// Open opens the working folder dir and makes it on first use. It takes the
// folder's lock (ErrInUse), removes generations that were never published,
// ends a switch of generations that a crash cut short, and purges old trash.
// What a commit had taken is left to Generation.RecoverPending, which needs
// to know what was entered.
func Open(dir string, o *Options) (*Folder, error) {
	if o == nil {
		o = &Options{}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open working folder: %w", err)
	}
	f := &Folder{dir: dir, log: o.Logger, now: o.Clock, keep: o.Keep, step: o.Step}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.now == nil {
		f.now = time.Now
	}
	if f.keep == 0 {
		f.keep = trashTerm
	}
	if f.step == nil {
		f.step = func(string) {}
	}
	command := o.Command
	if command == "" {
		command = filepath.Base(os.Args[0])
	}
	if !o.AnyDisk {
		if err := checkLocal(dir); err != nil {
			return nil, err
		}
	}
	if err := mkdirDurable(dir); err != nil {
		return nil, fmt.Errorf("open working folder: %w", err)
	}
	if err := syncAbove(dir); err != nil {
		return nil, fmt.Errorf("open working folder: %w", err)
	}
	if f.lock, err = lockFolder(dir, command); err != nil {
		return nil, fmt.Errorf("open working folder: %w", err)
	}
	opened := false
	defer func() {
		if !opened {
			_ = unlockFolder(f.lock) // only gives the lock up; the error to report is another
		}
	}()
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("open working folder %s: %w", dir, err)
	}
	opened = true
	return f, nil
}

func (f *Folder) open() error {
	if err := f.checkFormat(); err != nil {
		return err
	}
	for _, d := range []string{f.genDir(), f.trashDir()} {
		if err := mkdirDurable(d); err != nil {
			return err
		}
		if err := sweep(d); err != nil {
			return err
		}
	}
	n, err := f.readCurrent()
	if err != nil {
		return err
	}
	if n == 0 {
		return f.firstUse()
	}
	if err := f.recoverGenerations(n); err != nil {
		return err
	}
	return f.purgeTrash()
}

// checkFormat writes FORMAT into a new folder. A folder that has a CURRENT
// but no FORMAT was not left by a crash of ours: FORMAT is written first.
func (f *Folder) checkFormat() error {
	path := filepath.Join(f.dir, "FORMAT")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		there, err := exists(filepath.Join(f.dir, "CURRENT"))
		if err != nil {
			return err
		}
		if there {
			return outcome.Mark(outcome.Damaged, "FORMAT is missing", ErrDamaged, "restore FORMAT (text: 1) if this is a working folder")
		}
		f.step("open: format")
		return writeDurable(path, []byte(strconv.Itoa(format)+"\n"))
	}
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 1 {
		return outcome.Mark(outcome.Damaged, fmt.Sprintf("FORMAT holds %q, not a number", text), ErrFormat, "this is no working folder of tarn")
	}
	if n > format {
		return outcome.Mark(outcome.Refused, fmt.Sprintf("the folder has format %d, this tarn knows up to %d", n, format), ErrFormat,
			"use the tarn that wrote it, or a newer one")
	}
	return nil
}

// readCurrent returns the current generation's number, 0 before the first.
func (f *Folder) readCurrent() (int, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, "CURRENT"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 1 {
		return 0, outcome.Mark(outcome.Damaged, fmt.Sprintf("CURRENT holds %q, not the number of a generation", text), ErrDamaged,
			"write the greatest number in gen/ into CURRENT")
	}
	return n, nil
}

func (f *Folder) firstUse() error {
	nums, err := f.generations()
	if err != nil {
		return err
	}
	for _, n := range nums {
		b, err := readBuilding(f.genPath(n))
		if err != nil {
			return err
		}
		if b == nil {
			return outcome.Mark(outcome.Damaged, fmt.Sprintf("CURRENT is missing, but generation %d is there", n), ErrDamaged,
				"write the greatest number in gen/ into CURRENT")
		}
		if err := discard(f.genPath(n)); err != nil {
			return err
		}
	}
	b, err := f.begin()
	if err != nil {
		return err
	}
	_, err = f.publish(b, "")
	return err
}

// Close gives the folder up. It changes nothing on disk.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock == nil {
		return nil
	}
	err := unlockFolder(f.lock)
	f.lock = nil
	return err
}

// Dir is the folder's absolute path.
func (f *Folder) Dir() string { return f.dir }

// Current is the current generation.
func (f *Folder) Current() *Generation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

func (f *Folder) genDir() string       { return filepath.Join(f.dir, "gen") }
func (f *Folder) trashDir() string     { return filepath.Join(f.dir, "trash") }
func (f *Folder) genPath(n int) string { return filepath.Join(f.genDir(), strconv.Itoa(n)) }

// generations lists the numbers in gen/, smallest first.
func (f *Folder) generations() ([]int, error) {
	names, err := readNames(f.genDir())
	if err != nil {
		return nil, err
	}
	var nums []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n > 0 && strconv.Itoa(n) == name {
			nums = append(nums, n)
		}
	}
	return sortedInts(nums), nil
}
