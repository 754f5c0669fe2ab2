package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// ResolveOptions of Resolve.
type ResolveOptions struct {
	// Also are IDs that exist elsewhere, such as committed versions that are
	// not yet pushed: a full ID or a prefix may mean one of them.
	Also []ID
}

// Resolve finds the version that an argument means:
//
//	HEAD, a branch, a tag, refs/heads/.., refs/tags/..    in this order
//	a full ID, or a prefix of 8 characters or more that fits one version only
//	X~N     the N-th first parent of X; X~ is X~1
//	X@DATE  the newest version of X's history not newer than DATE (ParseDate)
//
// A branch of the name of the whole argument comes before any other reading.
// What fits nothing is ErrNoVersion (outcome NotFound); a prefix that fits
// several is ErrAmbiguous and lists them.
func (r *Repository) Resolve(ctx context.Context, arg string, o ResolveOptions) (ID, error) {
	id, err := r.resolveName(ctx, arg, o)
	if !errors.Is(err, errNoSuchName) {
		return id, err
	}
	// The last suffix first: neither a number nor a date holds '~' or '@'.
	i := strings.LastIndexAny(arg, "~@")
	if i <= 0 {
		return "", fail(ErrNoVersion, outcome.NotFound, nil, "tarn branch, tarn tag and tarn log list what there is", "%s has no branch, tag or version %q", r.store.URL(), clip(arg))
	}
	base, suffix := arg[:i], arg[i+1:]
	if arg[i] == '@' {
		t, err := ParseDate(suffix)
		if err != nil {
			return "", err
		}
		from, err := r.Resolve(ctx, base, o)
		if err != nil {
			return "", err
		}
		return r.ByDate(ctx, from, t)
	}
	n := int64(1)
	if suffix != "" {
		if n, err = strconv.ParseInt(suffix, 10, 32); err != nil || n < 0 {
			return "", outcome.New(outcome.Usage, fmt.Sprintf("%q is not a number of versions to go back", clip(suffix)), "write it like main~2")
		}
	}
	from, err := r.Resolve(ctx, base, o)
	if err != nil {
		return "", err
	}
	return r.back(ctx, from, n)
}

// errNoSuchName: perhaps the argument has a suffix.
var errNoSuchName = errors.New("repo: no such name")

// resolveName takes the argument as a whole.
func (r *Repository) resolveName(ctx context.Context, arg string, o ResolveOptions) (ID, error) {
	if arg == "HEAD" {
		h, err := r.Head(ctx)
		if err != nil || h.Detached != "" {
			return h.Detached, err
		}
		arg = headsPrefix + h.Branch
	}
	for _, prefix := range []string{"", headsPrefix, tagsPrefix} {
		name, err := ParseRefName(prefix + arg)
		if err != nil {
			continue
		}
		id, _, err := r.Ref(ctx, name)
		if !errors.Is(err, ErrNoRef) {
			return id, err
		}
	}
	id, err := r.resolveID(ctx, strings.ToLower(arg), o)
	if !errors.Is(err, errNoSuchName) {
		return id, err
	}
	// HEAD's branch exists from the start, its ref from the first version on.
	if h, headErr := r.Head(ctx); headErr == nil && h.Branch != "" && strings.TrimPrefix(arg, headsPrefix) == h.Branch {
		return "", fail(ErrNoVersion, outcome.NotFound, nil, "make one: touch .commit .push", "branch %s has no version yet", h.Branch)
	}
	return "", err
}

// resolveID takes arg as an ID or as the start of one.
func (r *Repository) resolveID(ctx context.Context, arg string, o ResolveOptions) (ID, error) {
	if id, err := ParseID(arg); err == nil {
		if slices.Contains(o.Also, id) {
			return id, nil
		}
		_, err := r.ReadVersion(ctx, id)
		return id, err
	}
	if len(arg) < MinPrefix || strings.Trim(arg, "0123456789abcdef-") != "" {
		return "", errNoSuchName
	}
	found, err := r.startingWith(ctx, arg)
	if err != nil {
		return "", err
	}
	for _, id := range o.Also {
		if strings.HasPrefix(string(id), arg) {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	switch found = slices.Compact(found); len(found) {
	case 0:
		return "", errNoSuchName
	case 1:
		return found[0], nil
	}
	short := ShortUnique(found)
	const most = 5
	var names []string
	for _, id := range found[:min(most, len(found))] {
		names = append(names, short[id])
	}
	list := strings.Join(names, ", ")
	if len(found) > most {
		list += ", ..."
	}
	return "", fail(ErrAmbiguous, outcome.Usage, nil, "write more of the ID", "%s is the start of %d versions: %s", arg, len(found), list)
}

// startingWith lists the versions whose ID has that prefix: all in the store,
// or, where it cannot list, those in the history of HEAD.
func (r *Repository) startingWith(ctx context.Context, prefix string) ([]ID, error) {
	var found []ID
	for info, err := range r.store.List(ctx, versionsPrefix+prefix) {
		if errors.Is(err, blobstore.ErrUnsupported) {
			return r.startingWithInHead(ctx, prefix)
		}
		if err != nil {
			return nil, fmt.Errorf("look for version %s: %w", prefix, err)
		}
		// Only a version.json makes a version of a folder (invariant 2).
		folder, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, versionsPrefix), "/"+VersionFile)
		if id, err := ParseID(folder); ok && err == nil && string(id) == folder {
			found = append(found, id)
		}
	}
	return found, nil
}

func (r *Repository) startingWithInHead(ctx context.Context, prefix string) ([]ID, error) {
	head, err := r.HeadID(ctx)
	if err != nil {
		return nil, err
	}
	var found []ID
	for v, err := range r.History(ctx, head) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(v.ID), prefix) {
			found = append(found, v.ID)
		}
	}
	return found, nil
}

// ParseDate reads a day (2026-10-12) or a time as in RFC 3339, in which '-' may
// stand for ':' so that it can be a file name (2026-10-12T14-03-05Z). It stands
// for the end of what it names: the last nanosecond of the day, in UTC, or of
// the second when it has no fraction, as names in history/ have none.
func ParseDate(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.AddDate(0, 0, 1).Add(-1), nil
	}
	b := []byte(text)
	for _, i := range []int{13, 16} { // 2026-10-12T14-03-05
		if i < len(b) && b[i] == '-' {
			b[i] = ':'
		}
	}
	// +02-00; the offset's own sign is five before the end.
	if i := len(b) - 3; i > 19 && b[i] == '-' && (b[i-3] == '+' || b[i-3] == '-') {
		b[i] = ':'
	}
	t, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return time.Time{}, outcome.New(outcome.Usage, fmt.Sprintf("%q is not a date", clip(text)), "write a day as 2026-10-12, or a time as 2026-10-12T14:03:05Z")
	}
	if t.Nanosecond() == 0 {
		t = t.Add(time.Second - 1)
	}
	return t.UTC(), nil
}
