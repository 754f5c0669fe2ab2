package repo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarnfs/tarn/engine/repo/internal/strictjson"
)

// Files of a version's folder.
const (
	VersionFile  = "version.json"
	DatasetFile  = "dataset.json"
	FilesFile    = "files.json"
	CatalogFile  = "ducklake.duckdb"
	CatalogsDir  = "catalogs/"
	laterCatalog = "metadata.db" // what a later format has instead of CatalogFile

	versionsPrefix = "versions/"
)

// VersionKey is the key of a file of a version's folder.
func VersionKey(id ID, name string) string { return versionsPrefix + string(id) + "/" + name }

// maxParents bounds what one version.json can make a walk of the history do.
const maxParents = 64

// Version is version.json: where a version comes from, and the checksums of
// everything else in its folder. A Version that a Repository returned is
// shared: it must not be changed.
type Version struct {
	ID        ID
	Parents   []ID // none for the first version, two after a merge; the first is the branch's own
	Author    string
	Message   string
	CreatedAt time.Time // UTC; later than every parent's
	DuckLake  DuckLake
	SHA256    map[string]string // of every other file of the folder, by name, in hex
	Number    int64             // 1 + the largest of the parents'; 0: not recorded (see Repository.Number)
	CreatedBy string            // "tarn <version>"
	Meta      map[string]json.RawMessage
	Extra     map[string]json.RawMessage // fields that are not known here
}

// DuckLake says what the frozen catalog holds.
type DuckLake struct {
	Version       string // of the format: "1.0"
	SnapshotID    int64  // its last snapshot
	SchemaVersion int64
	Extra         map[string]json.RawMessage
}

// DecodeVersion reads the version.json of the folder versions/<folder>/. An id
// that is not the folder's is ErrMalformed. Missing fields have defaults: the
// id is the folder's, created_at the time in the ID.
func DecodeVersion(data []byte, folder ID) (*Version, error) {
	v := &Version{ID: folder, CreatedAt: folder.time(), DuckLake: DuckLake{Version: "1.0"}}
	err := decodeObject(VersionFile, data, maxVersion, func(r *strictjson.Reader, key string) error {
		switch key {
		case "id":
			if err := optID(r, &v.ID); err != nil {
				return err
			}
			if v.ID != folder {
				return r.Errorf("%s is not the ID of its folder, %s", v.ID, folder)
			}
			return nil
		case "parents":
			return v.decodeParents(r)
		case "author":
			return optString(r, &v.Author)
		case "message":
			return optString(r, &v.Message)
		case "created_at":
			return optTime(r, &v.CreatedAt)
		case "ducklake":
			return v.DuckLake.decode(r)
		case "sha256":
			return v.decodeHashes(r)
		case "number":
			return optCount(r, &v.Number)
		case "created_by":
			return optString(r, &v.CreatedBy)
		case "meta":
			if null, err := r.Null(); null || err != nil {
				return err
			}
			return r.Object(func(key string) error { return keep(r, key, &v.Meta) })
		}
		return keep(r, key, &v.Extra)
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (v *Version) decodeParents(r *strictjson.Reader) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	return r.Array(func() error {
		var id ID
		if err := optID(r, &id); err != nil {
			return err
		}
		switch {
		case id == "":
			return r.Errorf("null is not a version ID")
		case id == v.ID:
			return r.Errorf("the version is its own parent")
		case slices.Contains(v.Parents, id):
			return r.Errorf("%s is named twice", id)
		case len(v.Parents) == maxParents:
			return r.Errorf("more than %d parents", maxParents)
		}
		v.Parents = append(v.Parents, id)
		return nil
	})
}

func (d *DuckLake) decode(r *strictjson.Reader) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	return r.Object(func(key string) error {
		switch key {
		case "version":
			return optString(r, &d.Version)
		case "snapshot_id":
			return optCount(r, &d.SnapshotID)
		case "schema_version":
			return optCount(r, &d.SchemaVersion)
		}
		return keep(r, key, &d.Extra)
	})
}

func (v *Version) decodeHashes(r *strictjson.Reader) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	v.SHA256 = map[string]string{}
	return r.Object(func(name string) error {
		if err := checkFolderFile(name); err != nil {
			return r.Errorf("%v", err)
		}
		var sum string
		if err := optHash(r, &sum); err != nil {
			return err
		}
		if sum != "" {
			v.SHA256[name] = sum
		}
		return nil
	})
}

// Encode writes version.json in its one form, after checking that DecodeVersion
// takes it back.
func (v *Version) Encode() ([]byte, error) {
	data, err := v.encode()
	if err != nil {
		return nil, fmt.Errorf("encode version.json of %s: %w", v.ID.Short(), err)
	}
	if int64(len(data)) > maxVersion {
		return nil, fmt.Errorf("encode version.json of %s: %d bytes, more than %d", v.ID.Short(), len(data), int64(maxVersion))
	}
	if _, err := DecodeVersion(data, v.ID); err != nil {
		return nil, fmt.Errorf("encode version.json of %s: %w", v.ID.Short(), err)
	}
	return data, nil
}

func (v *Version) encode() ([]byte, error) {
	if v.CreatedAt.IsZero() {
		return nil, errors.New("created_at is missing")
	}
	created, err := timeText(v.CreatedAt)
	if err != nil {
		return nil, err
	}
	lake := strictjson.Object{
		"version":        v.DuckLake.Version,
		"snapshot_id":    v.DuckLake.SnapshotID,
		"schema_version": v.DuckLake.SchemaVersion,
	}
	lake.Append(v.DuckLake.Extra)
	meta := strictjson.Object{}
	meta.Append(v.Meta)
	parents := make([]string, len(v.Parents))
	for i, p := range v.Parents {
		parents[i] = string(p)
	}
	o := strictjson.Object{
		"id":         string(v.ID),
		"parents":    parents,
		"author":     v.Author,
		"message":    v.Message,
		"created_at": created,
		"ducklake":   lake,
		"sha256":     v.SHA256,
		"meta":       meta,
		"created_by": v.CreatedBy,
	}
	if v.Number > 0 {
		o["number"] = v.Number
	}
	o.Append(v.Extra)
	return strictjson.Marshal(o)
}

// Hash is the sha256 that version.json gives for a file of the folder, or ""
// when it gives none.
func (v *Version) Hash(name string) string { return v.SHA256[name] }

// NextTime is the created_at of a child: now, or one millisecond after the
// newest parent when the clock is behind (invariant 5).
func NextTime(now time.Time, parents ...*Version) time.Time {
	t := now.UTC().Truncate(time.Millisecond)
	for _, p := range parents {
		if !t.After(p.CreatedAt) {
			t = p.CreatedAt.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
		}
	}
	return t
}
