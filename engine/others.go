package engine

import (
	"os"

	"github.com/tarnfs/tarn/engine/work"
)

// LeftByOthers says what other users of this machine have committed to this
// repository and not pushed, as far as this user may look: somebody who mounts
// it as root does not see his own work of yesterday.
func (e *Engine) LeftByOthers() []work.Left {
	home, err := e.stateHome()
	if err != nil {
		return nil
	}
	passwd, err := os.Open("/etc/passwd")
	if err != nil {
		return nil
	}
	defer passwd.Close()
	return work.LeftByOthers(work.Homes(passwd), e.space, home)
}
