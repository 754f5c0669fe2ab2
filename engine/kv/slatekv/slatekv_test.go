//go:build slatedb

package slatekv_test

import (
	"context"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvtest"
	"github.com/tarnfs/tarn/engine/kv/slatekv"
)

// A place is a URL without "slatedb:".
func parse(place string) *url.URL {
	u, err := url.Parse(place)
	if err != nil {
		panic(err)
	}
	return u
}

func folderURL(dir string) string { return (&url.URL{Scheme: "file", Path: dir}).String() }

var folder = kvtest.Driver{
	// A name that a URL would misread, if it were not escaped.
	In: func(dir string) string { return folderURL(filepath.Join(dir, "catalog ?#%41 ü")) },
	OpenWriter: func(ctx context.Context, place string) (kv.Writer, error) {
		w, err := slatekv.OpenWriter(ctx, parse(place), &slatekv.Options{Owner: "kvtest"})
		if err != nil {
			return nil, err
		}
		return w, nil
	},
	OpenReader: func(ctx context.Context, place string) (kv.Store, error) {
		r, err := slatekv.OpenReader(ctx, parse(place), nil)
		if err != nil {
			return nil, err
		}
		return r, nil
	},
	Folder:    func(place string) string { return parse(place).Path },
	Checksums: true,
}

func TestMain(m *testing.M) { kvtest.Main(m, folder) }

func TestFolder(t *testing.T) { kvtest.Run(t, folder) }
