package repo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo/internal/strictjson"
)

// FormatVersion is the repository format that this package writes, and the
// latest that it reads. A greater one in fdl.json is refused by name.
const FormatVersion = 1

// Defaults of fdl.json.
const (
	DefaultDataDir     = "data/"
	DefaultGracePeriod = 168 * time.Hour
	DefaultBranch      = "main"
)

const (
	formatFile = "fdl.json"
	headFile   = "HEAD"
)

// Format is fdl.json: what kind of repository this is.
type Format struct {
	FormatVersion  int64
	RepositoryID   string // a UUID; a clone keeps it. Empty in a file that has none
	DataDir        string // below the root, ends in a slash
	CreatedAt      time.Time
	GracePeriod    time.Duration // age below which garbage collection spares what no ref names
	RetainVersions int64         // versions of a branch that are kept; 0: all
	Extra          map[string]json.RawMessage
}

// DecodeFormat reads fdl.json. A later format is ErrLaterFormat, whatever the
// rest of the file holds; unknown fields are kept, missing ones get defaults.
func DecodeFormat(data []byte) (*Format, error) {
	f := &Format{FormatVersion: FormatVersion, DataDir: DefaultDataDir, GracePeriod: DefaultGracePeriod}
	// First the version alone: a later format may give the other fields other types.
	err := decodeObject(formatFile, data, maxFormat, func(r *strictjson.Reader, key string) error {
		if key != "format_version" {
			return r.Skip()
		}
		return optCount(r, &f.FormatVersion)
	})
	if err != nil {
		return nil, err
	}
	if f.FormatVersion > FormatVersion {
		return nil, laterFormat("fdl.json has format_version %d, this tarn reads up to %d", f.FormatVersion, FormatVersion)
	}
	err = decodeObject(formatFile, data, maxFormat, func(r *strictjson.Reader, key string) error {
		switch key {
		case "format_version":
			if f.FormatVersion == 0 {
				return r.Errorf("0 is not a format version")
			}
			return r.Skip()
		case "repository_id":
			var id ID
			err := optID(r, &id)
			f.RepositoryID = string(id)
			return err
		case "data_dir":
			if err := optString(r, &f.DataDir); err != nil {
				return err
			}
			if why := dataDirFault(f.DataDir); why != "" {
				return r.Errorf("%q %s", clip(f.DataDir), why)
			}
			return nil
		case "created_at":
			return optTime(r, &f.CreatedAt)
		case "grace_period":
			return optional(r, &f.GracePeriod, func() (time.Duration, error) {
				s, err := r.String()
				if err != nil {
					return 0, err
				}
				d, err := time.ParseDuration(s)
				if err != nil || d < 0 {
					return 0, r.Errorf("%q is not a length of time such as 168h", clip(s))
				}
				return d, nil
			})
		case "retain_versions":
			return optCount(r, &f.RetainVersions)
		}
		return keep(r, key, &f.Extra)
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Encode writes fdl.json in its one form.
func (f *Format) Encode() ([]byte, error) {
	if why := dataDirFault(f.DataDir); why != "" {
		return nil, fmt.Errorf("data_dir %q %s", f.DataDir, why)
	}
	o := strictjson.Object{
		"format_version":  f.FormatVersion,
		"data_dir":        f.DataDir,
		"grace_period":    durationText(f.GracePeriod),
		"retain_versions": nil,
	}
	if f.RepositoryID != "" {
		o["repository_id"] = f.RepositoryID
	}
	if f.RetainVersions > 0 {
		o["retain_versions"] = f.RetainVersions
	}
	if !f.CreatedAt.IsZero() {
		t, err := timeText(f.CreatedAt)
		if err != nil {
			return nil, err
		}
		o["created_at"] = t
	}
	o.Append(f.Extra)
	return strictjson.Marshal(o)
}

// durationText writes 168h rather than 168h0m0s.
func durationText(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}

// dataDirFault says what is wrong with a data_dir: it is a folder below the
// root, in a form that plain concatenation can use, and not one that the format
// needs for itself.
func dataDirFault(dir string) string {
	name, ok := strings.CutSuffix(dir, "/")
	switch {
	case !ok:
		return "does not end in a slash"
	case strings.ContainsAny(name, "\\\n\r"):
		return "holds a backslash or a line break"
	}
	if err := blobstore.ValidKey(name); err != nil {
		return "is not a plain relative folder"
	}
	switch top, _, _ := strings.Cut(name, "/"); top {
	case "refs", "versions", headFile, formatFile:
		return "lies in " + top + ", which the format itself needs"
	}
	return ""
}

// laterFormat refuses what a later tool wrote.
func laterFormat(what string, args ...any) error {
	return fail(ErrLaterFormat, outcome.Refused, nil, "use a newer tarn, or the tool that wrote this repository", what, args...)
}

// urlID stands for the repository_id of a repository that has none: the same
// for the same root.
func urlID(url string) string { return uuid.NewSHA1(uuid.NameSpaceURL, []byte(url)).String() }
