package blobstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ProbePrefix starts the keys of the scratch objects of Probe. One that is
// still there belongs to a probe that runs, or to one that was killed, and may
// be deleted.
const ProbePrefix = "tarn-probe-"

// Check is one question of a probe and what came of it.
type Check struct {
	Name  string // what is asked, such as "create once"
	Means string // what the answer is good for, one line
	Err   error  // nil: the store keeps this promise; ErrUnsafe: it breaks it; else it could not be asked
}

// Probe asks a live store whether it keeps promises 1, 2, 4 and 5 of the
// package, with two scratch objects that it removes again. Servers exist that
// answer 200 to a conditional write and ignore the condition; publishing to
// one loses other people's versions.
//
// A store that breaks a promise gives ErrUnsafe with the step in words; a
// store that cannot be asked gives its own error with the step.
func Probe(ctx context.Context, s Store) error {
	return Examine(ctx, s, func(Check) {})
}

// Examine is Probe that tells of each check as it ends. The first that fails
// is the last.
func Examine(ctx context.Context, s Store, told func(Check)) error {
	id := rand.Text()
	p := &prober{s: s, key: ProbePrefix + id, other: ProbePrefix + id + "-other"}
	err := p.run(ctx, told)
	// Also when interrupted: the store should be left as it was found.
	clean, cancel := readBackContext(ctx)
	defer cancel()
	cerr := p.clean(clean)
	if err == nil { // else the first failure is the one to tell
		told(Check{"clean up", "the scratch objects of this test are gone again", cerr})
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("probe %s: %w", s.URL(), err)
	}
	return nil
}

type prober struct {
	s          Store
	key, other string // scratch keys

	first, second Version // of key, as it was created and as it was replaced
	foreign       Version // of other
}

var (
	probeOne   = []byte("one\n")
	probeTwo   = []byte("two\n")
	probeThree = []byte("three\n")
)

// run makes the checks in order; each goes on from the state of the last.
func (p *prober) run(ctx context.Context, told func(Check)) error {
	for _, c := range []struct {
		name, means string
		ask         func(context.Context) error
	}{
		{"create and read", "a new object is there at once, for reading and in lists", p.create},
		{"create once", "of two writers of one new object one is refused", p.createOnce},
		{"refuse a stale swap", "a writer that has not seen the last change cannot undo it", p.refuseSwap},
		{"swap", "a writer that has seen the last change can make the next", p.swap},
		{"refuse the version before", "a version that was replaced is stale from then on", p.refuseOld},
		{"delete", "a deleted object is gone at once, and cannot be replaced", p.absent},
	} {
		err := c.ask(ctx)
		told(Check{c.name, c.means, err})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *prober) create(ctx context.Context) (err error) {
	if p.first, err = PutIfAbsentConfirmed(ctx, p.s, p.key, BytesBody(probeOne)); err != nil {
		return step("create a scratch object", err)
	}
	return p.holds(ctx, "right after it was created", probeOne, p.first)
}

func (p *prober) createOnce(ctx context.Context) error {
	_, err := p.s.PutIfAbsent(ctx, p.key, BytesBody(probeTwo))
	if err := refused("create it again with other content", err, ErrExists); err != nil {
		return err
	}
	return p.holds(ctx, "after a refused create", probeOne, p.first)
}

// refuseSwap names wrong versions. One must look like a right one, hence a
// second object's.
func (p *prober) refuseSwap(ctx context.Context) (err error) {
	if p.foreign, err = PutIfAbsentConfirmed(ctx, p.s, p.other, BytesBody(probeThree)); err != nil {
		return step("create a second scratch object", err)
	}
	for _, try := range []struct {
		words string
		have  Version
	}{
		{"replace it naming another object's version", p.foreign},
		{"replace it as if it did not exist", ""},
	} {
		_, err = p.s.PutIfMatch(ctx, p.key, try.have, probeTwo)
		if err := refused(try.words, err, ErrConflict); err != nil {
			return err
		}
		if err := p.holds(ctx, "after a refused replacement", probeOne, p.first); err != nil {
			return err
		}
	}
	return nil
}

func (p *prober) swap(ctx context.Context) (err error) {
	p.second, err = SwapConfirmed(ctx, p.s, p.key, p.first, probeTwo)
	if errors.Is(err, ErrConflict) {
		return broken("replace it naming its own version", "was refused")
	}
	if err != nil {
		return step("replace it naming its own version", err)
	}
	return p.holds(ctx, "after it was replaced", probeTwo, p.second)
}

func (p *prober) refuseOld(ctx context.Context) error {
	_, err := p.s.PutIfMatch(ctx, p.key, p.first, probeThree)
	if err := refused("replace it naming the version it had before", err, ErrConflict); err != nil {
		return err
	}
	return p.holds(ctx, "after a refused replacement", probeTwo, p.second)
}

// absent deletes the second object and asks for its absence.
func (p *prober) absent(ctx context.Context) error {
	if err := p.s.Delete(ctx, p.other); err != nil {
		return step("delete the second scratch object", err)
	}
	_, err := p.s.Head(ctx, p.other)
	if err == nil {
		return broken("look for the deleted object", "found it")
	}
	if !errors.Is(err, ErrNotExist) {
		return step("look for the deleted object", err)
	}
	_, err = p.s.PutIfMatch(ctx, p.other, p.foreign, probeThree)
	return refused("replace an object that does not exist", err, ErrConflict)
}

// holds asks for content, version and listing of the scratch object.
func (p *prober) holds(ctx context.Context, when string, want []byte, v Version) error {
	r, info, err := p.s.Get(ctx, p.key)
	if errors.Is(err, ErrNotExist) {
		return broken("read it "+when, "did not find it")
	}
	if err != nil {
		return step("read it "+when, err)
	}
	got, err := io.ReadAll(io.LimitReader(r, 1<<10))
	r.Close()
	if err != nil {
		return step("read it "+when, err)
	}
	if !bytes.Equal(got, want) {
		return broken("read it "+when, "found other content")
	}
	if info.Version != v || v == "" {
		return broken("read its version "+when, "found another one than the write returned")
	}
	var keys []string
	for info, err := range p.s.List(ctx, p.key) {
		if err != nil {
			return step("list it "+when, err)
		}
		keys = append(keys, info.Key)
	}
	if !slices.Contains(keys, p.key) {
		return broken("list it "+when, "did not find it")
	}
	return nil
}

func (p *prober) clean(ctx context.Context) error {
	var first error // one is enough to say: errors are one line
	for _, key := range []string{p.key, p.other} {
		if err := p.s.Delete(ctx, key); err != nil && first == nil {
			first = step("delete the scratch objects", err)
		}
	}
	return first
}

// refused wants the error that a violated condition gives.
func refused(words string, err, want error) error {
	switch {
	case errors.Is(err, want):
		return nil
	case err == nil:
		return broken(words, "succeeded")
	}
	return step(words, err)
}

func broken(words, what string) error {
	return fmt.Errorf("%w: the attempt to %s %s", ErrUnsafe, words, what)
}

func step(words string, err error) error { return fmt.Errorf("%s: %w", words, err) }
