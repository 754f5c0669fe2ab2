package work

import "strings"

// junkRule is one kind of name that programs leave beside data. Such files
// are kept and shown as they are, and never become rows.
type junkRule struct {
	prefix, suffix string
	exact          string
	files, dirs    bool
	why            string
}

// junkRules: the first match names the reason. Names are compared without
// case. A rule for files does not hold for folders: tmp_sales is a fair name
// of a table.
var junkRules = []junkRule{
	{prefix: ".~lock", files: true, why: "lock file of an office program"},
	{exact: ".DS_Store", files: true, why: "folder view of macOS"},
	{prefix: ".nfs", files: true, why: "file deleted while open, on NFS"},
	{prefix: ".fuse_hidden", files: true, why: "file deleted while open, on FUSE"},
	{prefix: ".", files: true, dirs: true, why: "hidden (temporary names of rsync, editors and Hadoop begin with a dot)"},
	{suffix: "~", files: true, why: "backup of an editor"},
	{prefix: "~$", files: true, why: "owner file of an office program"},
	{prefix: "#", suffix: "#", files: true, why: "auto-save of Emacs"},
	{suffix: ".swp", files: true, why: "swap file of Vim"},
	{suffix: ".swo", files: true, why: "swap file of Vim"},
	{suffix: ".swx", files: true, why: "swap file of Vim"},
	{exact: "4913", files: true, why: "Vim tries whether the folder is writable"},
	{exact: "_SUCCESS", files: true, why: "mark of Hadoop and Spark"},
	{exact: "_temporary", files: true, dirs: true, why: "work folder of Hadoop and Spark"},
	{prefix: "_started", files: true, why: "mark of Databricks"},
	{prefix: "_committed", files: true, why: "mark of Databricks"},
	{exact: "_metadata", files: true, why: "summary of a Parquet folder, holds no rows"},
	{exact: "_common_metadata", files: true, why: "summary of a Parquet folder, holds no rows"},
	{suffix: ".crc", files: true, why: "checksum of Hadoop"},
	{suffix: ".tmp", files: true, why: "temporary file"},
	{suffix: ".temp", files: true, why: "temporary file"},
	{suffix: ".part", files: true, why: "unfinished download"},
	{suffix: ".partial", files: true, why: "unfinished download"},
	{suffix: ".filepart", files: true, why: "unfinished upload of WinSCP"},
	{suffix: ".crdownload", files: true, why: "unfinished download of a browser"},
	{prefix: "tmp_", files: true, why: "DuckDB writes to this name, then renames"},
	{suffix: "-journal", files: true, why: "journal of SQLite"},
	{suffix: "-wal", files: true, why: "write-ahead log of SQLite"},
	{suffix: "-shm", files: true, why: "shared memory of SQLite"},
	{exact: "Thumbs.db", files: true, why: "pictures cache of Windows"},
	{exact: "ehthumbs.db", files: true, why: "pictures cache of Windows"},
	{exact: "desktop.ini", files: true, why: "folder view of Windows"},
	{exact: "$RECYCLE.BIN", dirs: true, why: "recycle bin of Windows"},
	{exact: "System Volume Information", dirs: true, why: "folder of Windows"},
	{exact: "lost+found", dirs: true, why: "folder of a file system check"},
	{exact: "__MACOSX", dirs: true, why: "left by a zip file of macOS"},
}

// JunkFile says whether a file of this name is kept but never data, and why.
func JunkFile(name string) (why string, ok bool) {
	return junk(name, func(r *junkRule) bool { return r.files })
}

// JunkDir says whether nothing below a folder of this name is data, and why.
func JunkDir(name string) (why string, ok bool) {
	return junk(name, func(r *junkRule) bool { return r.dirs })
}

func junk(name string, applies func(*junkRule) bool) (string, bool) {
	low := strings.ToLower(name)
	for i := range junkRules {
		r := &junkRules[i]
		if applies(r) && r.match(low) {
			return r.why, true
		}
	}
	return "", false
}

func (r *junkRule) match(low string) bool {
	if r.exact != "" {
		return low == strings.ToLower(r.exact)
	}
	return strings.HasPrefix(low, strings.ToLower(r.prefix)) && strings.HasSuffix(low, r.suffix) &&
		len(low) >= len(r.prefix)+len(r.suffix)
}

// Stem is what identifies a file in a table's folder, and names the table of
// a file outside of one: the name without its last extension.
func Stem(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}
