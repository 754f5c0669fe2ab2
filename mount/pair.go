package mount

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	gofuse "github.com/hanwen/go-fuse/v2/fs"

	"github.com/tarnfs/tarn/engine/outcome"
)

// WorkName is the folder of the repository's mount that the working folders
// are mounted on.
const WorkName = "work"

// PairOptions says what the two mounts are. Repo is required.
type PairOptions struct {
	// Repo is the repository; ReadOnly is set for it.
	Repo MountOptions
	// Work is the root of the working folders; nil mounts the repository
	// alone.
	Work gofuse.InodeEmbedder
	// WorkDir mounts the working folders elsewhere than in the repository.
	WorkDir string
	// Together is a tree that holds both, the working folders at WorkName: for
	// a user who is not root and has no WorkDir. fusermount3 cannot mount
	// inside a user's mount, for it is root and so may not enter it. It is
	// writable for the kernel; the repository's nodes refuse changes
	// themselves. nil asks such a user for a WorkDir.
	Together gofuse.InodeEmbedder
}

// Pair is the repository at M, read-only, and the working folders at M/work
// or elsewhere, writable: two mounts because only a read-only superblock lets
// the kernel refuse every change itself and keep attributes between reads.
type Pair struct {
	Repo    *Mounted
	Work    *Mounted // nil when there is none, or both are one mount
	workDir string
	done    chan struct{}
}

// WorkDir is where the working folders are seen; "" when they are not.
func (p *Pair) WorkDir() string { return p.workDir }

// MountPair mounts both, or nothing.
func MountPair(ctx context.Context, o PairOptions) (*Pair, error) {
	main := o.Repo
	main.ReadOnly = true
	inside := o.Work != nil && o.WorkDir == ""
	if inside && os.Geteuid() != 0 {
		if o.Together == nil {
			return nil, outcome.New(outcome.Usage, "only root can mount the working folders inside the repository's mount", "say where they shall be: --work DIR")
		}
		main.Root, main.ReadOnly = o.Together, false
		main.Negative = 0 // files come and go in it
		o.Work = nil
	}
	repo, err := Mount(ctx, main)
	if err != nil {
		return nil, err
	}
	p := &Pair{Repo: repo, done: make(chan struct{})}
	if inside {
		p.workDir = filepath.Join(repo.Dir(), WorkName)
	}
	if o.Work != nil {
		work := o.Repo
		work.Root = o.Work
		work.ReadOnly = false
		work.Negative = 0 // files come and go
		work.Guard.AllowNonEmpty = o.WorkDir == "" || o.Repo.Guard.AllowNonEmpty
		if inside {
			work.Dir = filepath.Join(repo.Dir(), WorkName)
			work.Guard.inside = true
			work.Guard.Avoid = nil // its repository's mount was checked
			work.Guard.Make = false
		} else {
			work.Dir = o.WorkDir
			work.FsName = workSource(o.Repo.FsName, repo.Dir())
			work.Guard.Avoid = append(append([]Place(nil), o.Repo.Guard.Avoid...), Place{"the repository's mount", repo.Dir()})
		}
		p.Work, err = Mount(ctx, work)
		if err != nil {
			return nil, errors.Join(err, repo.Unmount())
		}
		p.workDir = p.Work.Dir()
	}
	go p.watch()
	return p, nil
}

// watch closes done when both have ended.
func (p *Pair) watch() {
	if p.Work != nil {
		<-p.Work.Done()
	}
	<-p.Repo.Done()
	close(p.done)
}

// Done is closed when both mounts have ended.
func (p *Pair) Done() <-chan struct{} { return p.done }

// Wait waits for the end of both.
func (p *Pair) Wait() error {
	<-p.done
	if p.Work != nil {
		return errors.Join(p.Work.Wait(), p.Repo.Wait())
	}
	return p.Repo.Wait()
}

// dirs are the mount points, the working folders' first.
func (p *Pair) dirs() []string {
	if p.Work == nil {
		return []string{p.Repo.Dir()}
	}
	return []string{p.Work.Dir(), p.Repo.Dir()}
}

// Unmount ends both, the working folders first. When somebody uses either,
// the error is a BusyError, nothing is ended and serving goes on.
func (p *Pair) Unmount() error {
	if who := holders(p.dirs()...); len(who) > 0 {
		return busy(&BusyError{Dir: p.Repo.Dir(), Holders: who})
	}
	if p.Work != nil {
		if err := p.Work.Unmount(); err != nil {
			return err
		}
	}
	return p.Repo.Unmount()
}

// Detach ends both for all who come later.
func (p *Pair) Detach() error {
	var errs []error
	if p.Work != nil {
		errs = append(errs, p.Work.Detach())
	}
	return errors.Join(append(errs, p.Repo.Detach())...)
}
