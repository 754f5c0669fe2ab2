package engine

import (
	"context"
	"io"
	"time"

	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// File is an open immutable file. Fd lets a mount hand the kernel the file
// itself; ok is false where the bytes are not one local file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
	Fd() (fd uintptr, ok bool)
}

// TableFile is one file of versions/<ID>/tables/<schema>/<table>/.
type TableFile = work.BaseFile

// DataFile is one stored file that a version names, below versions/<ID>/data/.
type DataFile struct {
	Path    string // below data/: main/towns/towns-<uuid>.parquet
	Size    int64
	ModTime time.Time
}

// FolderFile is one file of the version folder itself (version.json, ...).
type FolderFile struct {
	Name string // may hold one slash: catalogs/x
	Size int64
}

// HistoryEntry is one line of history/<branch>.
type HistoryEntry struct {
	Name string // 0007_2026-10-12T14-03-05Z
	ID   repo.ID
	Time time.Time
}

// VersionTree is one version, as the read-only mount shows it. Listing opens
// no catalog. Immutable; safe for concurrent use.
type VersionTree interface {
	ID() repo.ID
	Time() time.Time // created_at; zero for the empty version
	// Load reads the version's index (files.json, checked against version.json).
	// The listing and opening methods need it to have returned nil; cheap the second time.
	// Opening a version reads version.json alone, so that listing a thousand of them stays cheap.
	Load(ctx context.Context) error
	work.Base
	// DataDirs and DataFiles list data/ one folder at a time; dir is "" or main/towns.
	DataDirs(dir string) []string
	DataFiles(dir string) []DataFile
	FolderFiles() []FolderFile
	// OpenTable opens what tables/ shows: the stored file, or the rows rewritten (made once, then cached).
	OpenTable(ctx context.Context, f TableFile) (File, error)
	// TableSize is the announced size of f: it changes once, when a rewrite did not fit the guess.
	TableSize(f TableFile) int64
	OpenData(ctx context.Context, path string) (File, error)
	OpenFolderFile(ctx context.Context, name string) (File, error)
	// LogText and DiffText are the generated files log and diff.
	LogText(ctx context.Context) (string, error)
	DiffText(ctx context.Context) (string, error)
	// AttachSQL is attach.sql for this version seen at dir (an absolute folder).
	AttachSQL(dir string) string
}

// Refs is what the read-only mount needs to know of a repository.
type Refs interface {
	Head(ctx context.Context) (branch string, err error)
	Branches(ctx context.Context) ([]string, error)
	Tags(ctx context.Context) ([]string, error)
	// BranchTarget and TagTarget read the ref afresh; the zero ID means no version yet; an unknown ref is ErrNotExist (outcome NotFound).
	BranchTarget(ctx context.Context, branch string) (repo.ID, error)
	TagTarget(ctx context.Context, tag string) (repo.ID, error)
	// History lists the last n versions of a branch, newest last.
	History(ctx context.Context, branch string, n int) ([]HistoryEntry, error)
	// ByDate finds the newest version of HEAD's history not newer than the text says (a day: its end, UTC; RFC 3339 with ':' or '-').
	ByDate(ctx context.Context, text string) (repo.ID, error)
	// Version opens a version; the zero ID gives the empty version.
	Version(ctx context.Context, id repo.ID) (VersionTree, error)
	// VersionIDs lists the versions known from refs and history (for readdir of versions/).
	VersionIDs(ctx context.Context) ([]repo.ID, error)
}

// Verb is what a control file does.
type Verb string

const (
	VerbCommit Verb = "commit"
	VerbPush   Verb = "push"
	VerbPull   Verb = "pull"
	VerbReset  Verb = "reset"
)

// Workspace is one open working folder, as the writable mount needs it.
type Workspace interface {
	Branch() string
	// Tables is the overlay shown as tables/.
	Tables() *work.Overlay
	// CatalogDir, MetaDir: backing folders of catalog/ and meta/. They change when a generation does.
	CatalogDir() string
	MetaDir() string
	// Data: listing and opening of data/. Local is the folder where new files are made.
	DataLocal() string
	DataNamed(dir string) (dirs []string, files []DataFile)
	// DataFind says whether any version names this stored file (then it cannot be changed), and opens it.
	DataFind(ctx context.Context, path string) (DataFile, bool)
	DataOpen(ctx context.Context, path string) (File, error)
	// BaseOpen opens a file of the base version as tables/ shows it.
	BaseOpen(ctx context.Context, f TableFile) (File, error)
	BaseSize(f TableFile) int64

	// Act runs a verb to its end and reports its outcome. It waits its turn;
	// when ctx ends first it returns ctx's error and the work goes on.
	Act(ctx context.Context, v Verb, message string) error
	// FolderSync is fsync of the working folder itself: what options.toml on_sync says.
	FolderSync(ctx context.Context) error
	// LastOutcome is what reading a control file gives.
	LastOutcome(v Verb) string
	// HasVerb says whether the control file exists.
	HasVerb(v Verb) bool

	// Generated files, rendered now. FailedText is "" when nothing failed since the last success.
	StatusText(ctx context.Context) (string, error)
	DiffText(ctx context.Context) (string, error)
	LogText(ctx context.Context) (string, error)
	ReadmeText() string
	FailedText() string
	AttachSQL(dir string) string

	// ClientOpened and ClientClosed count open handles on catalog/ and on writable staged files ("catalog" or the path below the working folder).
	ClientOpened(what string)
	ClientClosed(what string)
	// SetDoor tells where the worker finds catalog/ through the mount (the hidden side door); "" = use the backing folder.
	SetDoor(dir string)
}
