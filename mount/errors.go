package mount

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/tarnfs/tarn/engine/outcome"
)

// BusyError says which processes keep a mount from ending. It answers
// syscall.EBUSY, so outcome.Of makes it Busy.
type BusyError struct {
	Dir     string
	Holders []Holder
	Inner   string // another mount below Dir that must end first, or ""
}

func (e *BusyError) Error() string {
	switch {
	case e.Inner != "":
		return fmt.Sprintf("%s is busy: %s is mounted inside it", e.Dir, e.Inner)
	case len(e.Holders) == 0:
		return fmt.Sprintf("%s is busy", e.Dir)
	}
	who := make([]string, 0, len(e.Holders))
	for _, h := range e.Holders {
		who = append(who, h.String())
	}
	return fmt.Sprintf("%s is busy: in use by %s", e.Dir, strings.Join(who, ", "))
}

// Unwrap gives syscall.EBUSY.
func (e *BusyError) Unwrap() error { return syscall.EBUSY }

// busy makes the error a user sees of e.
func busy(e *BusyError) error {
	next := "leave the folder or end those processes, then: tarn umount " + e.Dir
	switch {
	case e.Inner != "":
		next = "umount " + e.Inner + ", then try again"
	case len(e.Holders) == 0:
		next = "find who uses it with: fuser -vm " + e.Dir
	}
	return outcome.Mark(outcome.Busy, e.Error(), e, next)
}
