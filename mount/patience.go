package mount

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// patience is how long an interrupted request goes on. See patiently.
const patience = 2 * time.Second

// patiently is raw with requests for names and opens that an interruption ends
// only after 2 seconds. The kernel announces every signal of the caller as an
// interruption, also those that change nothing (a timer, a child's end, a
// language's own scheduler), and stat or mkdir that fail with EINTR are what no
// program expects. A caller that is being killed is let go by then. What acts
// (a touch, a close, fsync) is not among them: it detaches at once, and the work
// goes on. Reads from far have a patience of their own.
func patiently(raw fuse.RawFileSystem) fuse.RawFileSystem { return &patient{raw, patience} }

type patient struct {
	fuse.RawFileSystem
	wait time.Duration
}

// late is cancel, closed later; end must be called when the request is answered.
func (p *patient) late(cancel <-chan struct{}) (later <-chan struct{}, end func()) {
	c, ended := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-cancel:
		}
		t := time.NewTimer(p.wait)
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
			close(c)
		}
	}()
	return c, func() { close(ended) }
}

func (p *patient) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Lookup(cancel, h, name, out)
}

func (p *patient) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.GetAttr(cancel, in, out)
}

func (p *patient) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Readlink(cancel, h)
}

func (p *patient) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Open(cancel, in, out)
}

func (p *patient) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.OpenDir(cancel, in, out)
}

func (p *patient) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.ReadDir(cancel, in, out)
}

func (p *patient) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.ReadDirPlus(cancel, in, out)
}

func (p *patient) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Create(cancel, in, name, out)
}

func (p *patient) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Mkdir(cancel, in, name, out)
}

func (p *patient) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Unlink(cancel, h, name)
}

func (p *patient) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Rmdir(cancel, h, name)
}

func (p *patient) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	cancel, end := p.late(cancel)
	defer end()
	return p.RawFileSystem.Rename(cancel, in, from, to)
}
