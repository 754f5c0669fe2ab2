package main

import "encoding/json"

// The control socket of a mount carries one request a connection. The client
// writes one JSON object on a line; the daemon answers with any number of
// progress lines and one last line:
//
//	> {"v":1,"verb":"push","point":"/mnt/towns/work","path":"main","options":{}}
//	< {"progress":{"done":1048576,"total":52428800}}
//	< {"result":{...},"text":"..."}   or   {"error":{"code","message","hint"}}
//
// A client that closes the connection has given up waiting: the daemon's work
// goes on, as after an interrupted touch of a control file.

// protocolVersion changes when an older daemon would misread a request. A
// daemon of another version answers with an error that says so.
const protocolVersion = 1

// maxRequest bounds a request in bytes; the largest holds a commit message.
const maxRequest = 1 << 20

type request struct {
	Version int             `json:"v"`
	Verb    string          `json:"verb"`
	Path    string          `json:"path"` // where the client stands, below the mount point it named
	Point   string          `json:"point"`
	Options json.RawMessage `json:"options,omitempty"`
}

type reply struct {
	Progress *progress       `json:"progress,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Text     string          `json:"text,omitempty"`
	Error    *errorBody      `json:"error,omitempty"`
}

// progress is how far a long verb has come, in bytes.
type progress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// The verbs of the protocol.
const (
	verbCommit = "commit"
	verbPush   = "push"
	verbPull   = "pull"
	verbMerge  = "merge"
	verbReset  = "reset"
	verbStatus = "status"
	verbDiff   = "diff"
	verbLog    = "log"

	verbRestore   = "restore"
	verbRevert    = "revert"
	verbCommitted = "committed"

	verbInspect       = "inspect"
	verbVerifyCatalog = "verify-catalog"
	verbRepair        = "repair"

	verbInfo   = "info"
	verbUmount = "umount"
)

type commitOptions struct {
	Message    string `json:"message,omitempty"`
	Author     string `json:"author,omitempty"` // as named by flag or environment; empty: the folder's own
	AllowEmpty bool   `json:"allow_empty,omitempty"`

	Meta map[string]string `json:"meta,omitempty"`
}

type pushOptions struct {
	CheckAll bool `json:"check_all,omitempty"`
}

type resetOptions struct {
	Last bool `json:"last,omitempty"`
	Undo bool `json:"undo,omitempty"`
}

type restoreOptions struct {
	From   string   `json:"from"`
	Tables []string `json:"tables,omitempty"`
}

type revertOptions struct {
	Version string `json:"version"`
}

type mergeOptions struct {
	From    string `json:"from"`
	Message string `json:"message,omitempty"`
	Author  string `json:"author,omitempty"`
}

type umountOptions struct {
	Lazy bool `json:"lazy,omitempty"`
}

// remote is a document that another process made: already in both forms.
type remote struct {
	doc  json.RawMessage
	text string
}

func (r remote) Text() string { return r.text }

func (r remote) MarshalJSON() ([]byte, error) {
	if r.doc == nil {
		return []byte("{}"), nil
	}
	return r.doc, nil
}
