package repo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tarnfs/tarn/blobstore"
)

// ClaimPrefix begins the names of claims, at the root beside fdl.json. A claim
// is a writer's word that it was beaten to a ref and is redoing its work:
// {"holder": "<text>", "ref": "<name>"}. Who also writes that ref gives way for a
// while. Claims are politeness and no locks: nothing is wrong when one is lost,
// taken away or not heeded, and no reader looks at them.
const ClaimPrefix = "tarn-claim-"

// maxClaim bounds a claim in bytes.
const maxClaim = 4 << 10

// Claim is what a ref's claim says.
type Claim struct {
	Holder string            // who holds it; empty: nobody
	State  blobstore.Version // changes with each holder
	Time   time.Time         // when it was taken, by the store's clock
}

type claimText struct {
	Holder string  `json:"holder"`
	Ref    RefName `json:"ref"`
}

// claimKey is short, and has no part of a branch's name that a store could
// stumble over.
func claimKey(ref RefName) string {
	sum := sha256.Sum256([]byte(ref))
	return ClaimPrefix + hexOf(sum[:8])
}

// ReadClaim reads the claim to a ref; none is no error. One that is no claim of
// ours has the holder "?".
func (r *Repository) ReadClaim(ctx context.Context, ref RefName) (Claim, error) {
	data, info, err := readSmall(ctx, r.store, claimKey(ref), maxClaim)
	switch {
	case notExist(err):
		return Claim{}, nil
	case err != nil && !errors.Is(err, ErrDamaged):
		return Claim{}, fmt.Errorf("read the claim to %s: %w", ref, err)
	}
	c := Claim{Holder: "?", State: info.Version, Time: info.ModTime}
	var text claimText
	if json.Unmarshal(data, &text) == nil && text.Holder != "" {
		c.Holder = text.Holder
	}
	return c, nil
}

// TakeClaim takes the claim to a ref that is in the state have, the zero value
// of which is that nobody holds it. It reports whether holder has it now, as far
// as that can be told; another was faster is no error.
func (r *Repository) TakeClaim(ctx context.Context, ref RefName, holder string, have blobstore.Version) (bool, error) {
	data, err := json.Marshal(claimText{holder, ref})
	if err != nil {
		return false, err
	}
	_, err = r.store.PutIfMatch(ctx, claimKey(ref), have, append(data, '\n'))
	if err == nil {
		return true, nil
	}
	c, readErr := r.ReadClaim(ctx, ref) // the answer may have been lost
	switch {
	case readErr == nil && c.Holder == holder:
		return true, nil
	case errors.Is(err, blobstore.ErrConflict):
		return false, nil
	}
	return false, fmt.Errorf("claim %s: %w", ref, err)
}

// DropClaim gives the claim to a ref back, when holder has it.
func (r *Repository) DropClaim(ctx context.Context, ref RefName, holder string) error {
	c, err := r.ReadClaim(ctx, ref)
	if err != nil || c.Holder != holder {
		return err
	}
	if err := r.store.Delete(ctx, claimKey(ref)); err != nil {
		return fmt.Errorf("give back the claim to %s: %w", ref, err)
	}
	return nil
}
