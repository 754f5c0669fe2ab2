package mount

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// slowNames answers a lookup when told to, or when it is cancelled.
type slowNames struct {
	fuse.RawFileSystem
	asked  chan struct{}
	answer chan struct{}
}

func (s *slowNames) Lookup(cancel <-chan struct{}, _ *fuse.InHeader, _ string, _ *fuse.EntryOut) fuse.Status {
	close(s.asked)
	select {
	case <-s.answer:
		select {
		case <-cancel:
			return fuse.EINTR
		default:
			return fuse.OK
		}
	case <-cancel:
		return fuse.EINTR
	}
}

// A signal that changes nothing does not break a lookup; a caller that is
// killed is let go after a while.
func TestPatiently(t *testing.T) {
	for _, c := range []struct {
		name    string
		wait    time.Duration
		answers bool
		want    fuse.Status
	}{
		{"answered after the signal", time.Hour, true, fuse.OK},
		{"never answered", time.Millisecond, false, fuse.EINTR},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &slowNames{fuse.NewDefaultRawFileSystem(), make(chan struct{}), make(chan struct{})}
			p := patiently(s)
			p.(*patient).wait = c.wait
			cancel := make(chan struct{})
			got := make(chan fuse.Status)
			go func() { got <- p.Lookup(cancel, &fuse.InHeader{}, "x", &fuse.EntryOut{}) }()
			<-s.asked
			close(cancel)
			if c.answers {
				time.Sleep(10 * time.Millisecond) // for a cancellation that must not come
				close(s.answer)
			}
			if st := <-got; st != c.want {
				t.Errorf("lookup: %v, want %v", st, c.want)
			}
		})
	}
}
