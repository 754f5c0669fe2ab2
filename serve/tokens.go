package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
)

// right is what a token may do; a higher one may do what a lower one may.
type right int

const (
	rightNone right = iota
	rightMetrics
	rightRead
	rightWrite
)

var rights = map[string]right{"metrics": rightMetrics, "read": rightRead, "write": rightWrite}

// tokenFile is the file of tokens, one a line:
//
//	RIGHT NAME TOKEN
//
// RIGHT is read, write (which reads, too) or metrics. NAME stands in the log.
// TOKEN is 16 characters or more, without blanks; written as sha256:HEX it is
// the hash of one, so that the file holds no secret. "read everybody *" lets
// everybody read. Empty lines and those that start with # are skipped.
type tokenFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu     sync.RWMutex // guards what follows
	tokens []token
	all    bool // everybody reads
	seen   stamp
	looked time.Time
}

type token struct {
	right right
	name  string
	sum   [sha256.Size]byte
}

// stamp tells two states of a file apart.
type stamp struct {
	size int64
	mod  time.Time
}

const (
	minToken     = 16      // characters; shorter ones can be guessed
	maxTokenFile = 1 << 20 // bytes
	lookAgain    = time.Second
)

func openTokens(path string, log *slog.Logger) (*tokenFile, error) {
	f := &tokenFile{path: path, log: log, now: time.Now}
	if err := f.reload(); err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o004 != 0 {
		log.Warn("every user of this machine can read the file of tokens", "path", path)
	}
	return f, nil
}

// reload reads the file; on error the tokens stay as they were.
func (f *tokenFile) reload() error {
	st, err := os.Stat(f.path)
	if err != nil {
		return outcome.Wrap(outcome.NotFound, "cannot read the file of tokens", err, "name a file with a line RIGHT NAME TOKEN for each token")
	}
	if !st.Mode().IsRegular() || st.Size() > maxTokenFile {
		return outcome.New(outcome.Usage, f.path+" is not a file of tokens", "name a file with a line RIGHT NAME TOKEN for each token")
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return outcome.Wrap(outcome.Permission, "cannot read the file of tokens", err, "")
	}
	tokens, all, err := parseTokens(string(data))
	if err != nil {
		return outcome.New(outcome.Usage, f.path+": "+err.Error(), "a line is: RIGHT NAME TOKEN, with RIGHT read, write or metrics")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens, f.all, f.seen, f.looked = tokens, all, stamp{st.Size(), st.ModTime()}, f.now()
	return nil
}

// parseTokens reads the file. Its errors name lines and never show a token.
func parseTokens(text string) (tokens []token, all bool, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 3 {
			return nil, false, fmt.Errorf("line %d has %d words, not three", n, len(words))
		}
		r, ok := rights[words[0]]
		if !ok {
			return nil, false, fmt.Errorf("line %d does not begin with read, write or metrics", n)
		}
		if words[2] == "*" {
			if r != rightRead {
				return nil, false, fmt.Errorf("line %d: everybody can be let in for reading alone", n)
			}
			all = true
			continue
		}
		t := token{right: r, name: words[1]}
		if err := t.set(words[2]); err != nil {
			return nil, false, fmt.Errorf("line %d: %w", n, err)
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 && !all {
		return nil, false, errors.New("it has no token")
	}
	return tokens, all, nil
}

func (t *token) set(word string) error {
	if hexSum, ok := strings.CutPrefix(word, "sha256:"); ok {
		sum, err := hex.DecodeString(hexSum)
		if err != nil || len(sum) != sha256.Size {
			return errors.New("what follows sha256: is not a hash in hex")
		}
		copy(t.sum[:], sum)
		return nil
	}
	if len(word) < minToken {
		return fmt.Errorf("the token has fewer than %d characters", minToken)
	}
	t.sum = sha256.Sum256([]byte(word))
	return nil
}

// refresh reads the file again when it has changed; it looks once a second.
func (f *tokenFile) refresh() {
	now := f.now()
	f.mu.Lock()
	if now.Sub(f.looked) < lookAgain {
		f.mu.Unlock()
		return
	}
	f.looked = now
	was := f.seen
	f.mu.Unlock()
	st, err := os.Stat(f.path)
	if err == nil && (stamp{st.Size(), st.ModTime()}) == was {
		return
	}
	if err == nil {
		err = f.reload()
	}
	if err != nil {
		f.log.Error("the file of tokens cannot be read again: those of before count", "path", f.path, "err", err)
		return
	}
	f.log.Info("the file of tokens was read again", "path", f.path)
}

// find is who a token belongs to and what it may do. Every token is compared,
// by hash: how long it takes tells nothing.
func (f *tokenFile) find(given string, ok bool) (who string, has right) {
	f.refresh()
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.all {
		has = rightRead
	}
	if !ok {
		return "", has
	}
	sum := sha256.Sum256([]byte(given))
	found := -1
	for i := range f.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], f.tokens[i].sum[:]), i, found)
	}
	if found < 0 {
		// A wrong token is a mistake that should show, also where everybody reads.
		return "", rightNone
	}
	return f.tokens[found].name, max(has, f.tokens[found].right)
}

func (f *tokenFile) count(r right) int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := 0
	for _, t := range f.tokens {
		if t.right == r {
			n++
		}
	}
	return n
}

func (f *tokenFile) everybody() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.all
}
