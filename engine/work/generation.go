package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tarnfs/tarn/engine/outcome"
)

// buildingFile marks a generation that is being built, and stays in it until
// the switch to it is complete, so that Open can tell a half-built one
// (delete), one that was taken out of the trash (put back) and a published
// one whose predecessor still has to go to the trash (do it).
const buildingFile = "BUILDING"

// building is the text of buildingFile, JSON; part of the format.
type building struct {
	Replaces int    `json:"replaces,omitempty"` // generation that was current; 0 until publishing
	Why      string `json:"why,omitempty"`      // why that one goes to the trash
	From     string `json:"from,omitempty"`     // trash entry this generation came from
}

var genFolders = []string{"catalog", "data", "meta", "staging", "pending", "outbox"}

// Layout is where the parts of a generation lie.
type Layout struct{ dir string }

// Dir is the generation's own folder; what the engine keeps beside the parts
// below it moves and is dropped with them.
func (l Layout) Dir() string { return l.dir }

// CatalogDir holds lake.sqlite and what SQLite puts beside it.
func (l Layout) CatalogDir() string { return filepath.Join(l.dir, "catalog") }

// DataDir holds local data files.
func (l Layout) DataDir() string { return filepath.Join(l.dir, "data") }

// MetaDir holds dataset.json, options.toml and checks/. It belongs to the
// generation because dataset.json belongs to its base version.
func (l Layout) MetaDir() string { return filepath.Join(l.dir, "meta") }

// OutboxDir holds committed version folders.
func (l Layout) OutboxDir() string { return filepath.Join(l.dir, "outbox") }

func (l Layout) stagingDir() string { return filepath.Join(l.dir, "staging") }
func (l Layout) pendingDir() string { return filepath.Join(l.dir, "pending") }

// Generation is one continuous history of a working folder. It is dead once
// another one became current: overlay operations then answer ESTALE.
type Generation struct {
	Layout
	folder *Folder
	num    int

	mu      sync.Mutex // guards staging/, pending/ and what follows; acquire after Folder.mu
	epoch   int        // grows when staging/ was exchanged: an Overlay then reads it anew
	taken   bool       // a Taken is alive
	retired bool
}

// Number is the generation's number, from 1, unique in the folder.
func (g *Generation) Number() int { return g.num }

// Building is a generation that nobody sees yet.
type Building struct {
	Layout
	num int
}

// Number is the number the generation will have.
func (b *Building) Number() int { return b.num }

// Begin makes an empty generation to be filled and published. One that is
// neither published nor discarded is removed by the next Open.
func (f *Folder) Begin() (*Building, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := f.begin()
	if err != nil {
		return nil, fmt.Errorf("begin generation: %w", err)
	}
	return b, nil
}

// begin makes the folder under a temporary name first: its own name must
// never show without buildingFile in it.
func (f *Folder) begin() (*Building, error) {
	nums, err := f.generations()
	if err != nil {
		return nil, err
	}
	entries, err := f.trashEntries()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		nums = append(nums, e.Gen)
	}
	n := 1
	if len(nums) > 0 {
		n = slices.Max(nums) + 1
	}
	tmp := filepath.Join(f.genDir(), fmt.Sprintf("%s%d", tmpPrefix, n))
	f.step("begin: make")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, err
	}
	if err := writeBuilding(tmp, building{}); err != nil {
		return nil, err
	}
	for _, d := range genFolders {
		if err := os.Mkdir(filepath.Join(tmp, d), 0o700); err != nil {
			return nil, err
		}
	}
	if err := syncPath(tmp); err != nil {
		return nil, err
	}
	f.step("begin: name")
	if err := moveDurable(tmp, f.genPath(n)); err != nil {
		return nil, err
	}
	return &Building{Layout: Layout{f.genPath(n)}, num: n}, nil
}

// Generation is b as it will be, for who fills it: until it is published
// nobody else sees it, and it has no staging of its own.
func (f *Folder) Generation(b *Building) *Generation {
	return &Generation{Layout: b.Layout, folder: f, num: b.num}
}

// Discard removes a generation that shall not be published.
func (f *Folder) Discard(b *Building) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil && f.current.num == b.num {
		return nil // published: not ours to remove
	}
	if err := discard(b.dir); err != nil {
		return fmt.Errorf("discard generation %d: %w", b.num, err)
	}
	return nil
}

// Publish makes b current by one rename of CURRENT; the generation before it
// goes to the trash with the reason why, from where Undo can bring it back.
// Everything in b is synced first. Once CURRENT has moved Publish succeeds:
// what is left to tidy then is done by the next Open.
//
// Order: sync b; note in b what it replaces; CURRENT; old one to trash; note away.
func (f *Folder) Publish(b *Building, why string) (*Generation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.publish(b, why)
	if err != nil {
		return nil, fmt.Errorf("publish generation %d: %w", b.num, err)
	}
	return g, nil
}

func (f *Folder) publish(b *Building, why string) (*Generation, error) {
	replaces := 0
	if f.current != nil {
		replaces = f.current.num
	}
	f.step("publish: sync")
	if err := syncTree(b.dir); err != nil {
		return nil, err
	}
	f.step("publish: note")
	if err := writeBuilding(b.dir, building{Replaces: replaces, Why: why}); err != nil {
		return nil, err
	}
	return f.switchTo(b.num, why)
}

// switchTo is the part that Publish and Undo share: gen/n is whole, synced,
// and its buildingFile names what it replaces.
func (f *Folder) switchTo(n int, why string) (*Generation, error) {
	old := f.current
	if old != nil {
		// Held over the switch: no operation of the old overlay may fall
		// between the last look at it and its retirement.
		old.mu.Lock()
		defer old.mu.Unlock()
		if old.taken {
			return nil, errTaken()
		}
	}
	f.step("switch: CURRENT")
	werr := writeDurable(filepath.Join(f.dir, "CURRENT"), fmt.Appendf(nil, "%d\n", n))
	if werr != nil {
		// It may have failed after the rename. Going on with the old generation
		// then would put later work where the next open throws it away.
		if cur, err := f.readCurrent(); err != nil || cur != n {
			return nil, werr
		}
	}
	g := &Generation{Layout: Layout{f.genPath(n)}, folder: f, num: n}
	f.current = g
	if old != nil {
		old.retired = true
	}
	err := werr // not durable: the old generation must stay where CURRENT might still lead
	if err == nil {
		err = f.afterSwitch(g, old, why)
	}
	if err != nil {
		f.log.Warn("generation switched, tidying left to the next open", "dir", f.dir, "generation", n, "err", err)
	}
	return g, nil
}

func (f *Folder) afterSwitch(g, old *Generation, why string) error {
	if old != nil {
		f.step("switch: trash")
		if _, err := f.moveToTrash(old.dir, KindGeneration, old.num, why); err != nil {
			return err
		}
	}
	f.step("switch: done")
	return removeBuilding(g.dir)
}

// recoverGenerations ends what a crash left: see buildingFile. A generation
// that was current is moved to the trash, never deleted.
func (f *Folder) recoverGenerations(cur int) error {
	there, err := exists(f.genPath(cur))
	if err != nil {
		return err
	}
	if !there {
		return outcome.Mark(outcome.Damaged, fmt.Sprintf("CURRENT names generation %d, which is missing", cur), ErrDamaged,
			"look in gen/ and trash/ for it; check the branch out again if it is lost")
	}
	note, err := readBuilding(f.genPath(cur))
	if err != nil {
		return err
	}
	nums, err := f.generations()
	if err != nil {
		return err
	}
	for _, n := range nums {
		if n == cur {
			continue
		}
		if err := f.recoverOther(n, note); err != nil {
			return err
		}
	}
	if note != nil {
		if err := removeBuilding(f.genPath(cur)); err != nil {
			return err
		}
	}
	for _, d := range genFolders {
		if err := mkdirDurable(filepath.Join(f.genPath(cur), d)); err != nil {
			return err
		}
	}
	f.current = &Generation{Layout: Layout{f.genPath(cur)}, folder: f, num: cur}
	for _, d := range []string{f.current.OutboxDir(), filepath.Join(f.current.stagingDir(), "tmp")} {
		if err := sweep(d); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) recoverOther(n int, cur *building) error {
	b, err := readBuilding(f.genPath(n))
	switch {
	case err != nil:
		return err
	case b == nil: // was current: the crash fell between CURRENT and trash
		why := "left"
		if cur != nil && cur.Replaces == n {
			why = cur.Why
		}
		_, err := f.moveToTrash(f.genPath(n), KindGeneration, n, why)
		return err
	case b.From != "": // taken out of the trash, not made current
		back := filepath.Join(f.trashDir(), filepath.Base(b.From))
		if err := moveDurable(f.genPath(n), back); err != nil {
			return err
		}
		return removeBuilding(back)
	default:
		return discard(f.genPath(n))
	}
}

func writeBuilding(dir string, b building) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return writeDurable(filepath.Join(dir, buildingFile), append(text, '\n'))
}

// readBuilding returns nil when there is none.
func readBuilding(dir string) (*building, error) {
	text, err := os.ReadFile(filepath.Join(dir, buildingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := new(building)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, outcome.Wrap(outcome.Damaged, filepath.Join(dir, buildingFile)+" is damaged", err, "remove the file if the folder beside it is whole")
	}
	return b, nil
}

func removeBuilding(dir string) error {
	if err := os.Remove(filepath.Join(dir, buildingFile)); err != nil {
		return ignoreMissing(err)
	}
	return syncPath(dir)
}

func sortedInts(n []int) []int {
	slices.Sort(n)
	return n
}

func errTaken() error {
	return outcome.Mark(outcome.Busy, "a commit is running", ErrTaken, "wait for it to end")
}
