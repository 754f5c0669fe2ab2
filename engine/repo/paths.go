package repo

import (
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/blobstore"
)

// checkFolderFile returns nil when name can be a file of a version's folder,
// other than version.json itself: a relative path that stays inside. Names that
// only other tools know are taken too.
func checkFolderFile(name string) error {
	if err := blobstore.ValidKey(name); err != nil {
		return fmt.Errorf("%q is not a file name", clip(name))
	}
	if name == VersionFile {
		return fmt.Errorf("%s cannot hold its own checksum", VersionFile)
	}
	return nil
}

// dataPathFault says what is wrong with the path of a data or delete file: it
// is a clean relative path to something below dataDir. The empty text: nothing.
func dataPathFault(path, dataDir string) string {
	rest, ok := strings.CutPrefix(path, dataDir)
	switch {
	case !ok:
		return "is not below " + dataDir
	case rest == "":
		return "is a folder"
	}
	if blobstore.ValidKey(path) != nil {
		return "is not a clean relative path"
	}
	return ""
}
