package blobstore

import (
	"context"
	"io"
	"iter"
	"os"
	"time"
)

// Version names one state of one object: an ETag, a generation, a hash.
// Opaque, compared for equality only, never empty for an object that exists.
type Version string

// Info describes an object.
type Info struct {
	Key     string
	Size    int64     // bytes
	ModTime time.Time // by the store's clock
	Version Version   // may be empty in List
	SHA256  string    // hex, when the store recorded one; else empty
}

// Body is the content of a write, readable more than once so that a write can
// be retried and read back.
type Body struct {
	Size   int64
	SHA256 string // hex; recorded beside the object and compared on read-back
	// Open returns a new reader of the whole content; the store closes it. It
	// may be nil when Path is set.
	Open func() (io.ReadCloser, error)
	// Path, when not empty, is a local file that holds exactly this content
	// and that its owner will never change: a folder store may link it. A
	// linked file is made read-only and gets the present time.
	Path string
}

// Store holds objects by key. Keys are relative slash paths without empty,
// "." or ".." segments. Every method may be called from any goroutine; a
// cancelled context makes a call return early, and then the outcome of a
// write is unknown (read it back).
type Store interface {
	// Get opens the whole object. The caller closes the reader.
	Get(ctx context.Context, key string) (io.ReadCloser, Info, error)
	// GetRange reads n bytes from off (n < 0: to the end); a range past the
	// end is cut short, without error.
	GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// Head describes the object.
	Head(ctx context.Context, key string) (Info, error)
	// PutIfAbsent creates the object. When one is there already with the same
	// content it succeeds; with other content: ErrExists. When it returned nil
	// the object is durable.
	PutIfAbsent(ctx context.Context, key string, b Body) (Version, error)
	// PutIfMatch replaces the object if its version is have: else ErrConflict
	// (also when it does not exist). An empty have means "must not exist". It
	// is made for small objects: the store may hold data in memory and hold
	// other swaps up meanwhile. The caller keeps data and does not change it
	// until the call returned.
	PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error)
	// Delete removes the object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// List yields the objects whose key starts with prefix, sorted by key. An
	// error is yielded once, with an Info that may name the key, and ends the
	// list: what came before it is then not the whole.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// URL is where the store is, without secrets.
	URL() string
	Close() error
}

// LocalFiles is implemented by stores whose objects are files of this machine.
// Ask with As, which looks through wrappers.
type LocalFiles interface {
	// OpenFile opens the object's own file for reading, never following a
	// link out of the store.
	OpenFile(key string) (*os.File, error)
	// Dir is the absolute folder of the store.
	Dir() string
}

// Syncer is implemented by stores where an object can be visible before it is
// durable. A write whose error turns out to have been applied is settled with
// it.
type Syncer interface {
	// SyncObject returns nil when the object of that key is there and durable.
	SyncObject(ctx context.Context, key string) error
}

// Wrapper is a Store around a Store.
type Wrapper interface {
	Store
	// Unwrap is the store inside.
	Unwrap() Store
}

// As finds the outermost store that is a T, looking through wrappers. T is an
// interface such as LocalFiles, or the type of a driver or wrapper.
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		w, ok := s.(Wrapper)
		if !ok {
			break
		}
		s = w.Unwrap()
	}
	var none T
	return none, false
}
