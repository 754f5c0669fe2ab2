package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
)

// Options of New. The zero value serves for reading, to everybody who can
// connect.
type Options struct {
	// ReadOnly refuses every write, whatever the token.
	ReadOnly bool
	// Tokens names the file of tokens (tokens.go); empty: there are none, and
	// then nobody can write.
	Tokens string
	// Metrics offers the server's counts at /metrics, to this machine and to
	// tokens for it.
	Metrics bool
	// MaxObject is the size in bytes from which a body is refused; 0: 1 TiB.
	MaxObject int64
	// Spool is the folder where bodies wait until they are whole, in files
	// without a name; empty: the system's folder for temporary files.
	Spool string
	// Silence is how long a client may neither send nor take a byte while it
	// is its turn; 0: a minute.
	Silence time.Duration
	// Log gets a line for each request at level info; nil: no log.
	Log *slog.Logger
}

// Server is an http.Handler that offers one repository.
type Server struct {
	o       Options
	store   blobstore.Store
	layout  layout
	grace   time.Duration
	tokens  *tokenFile // nil: there are none
	metrics *metrics
	log     *slog.Logger

	refs chan struct{} // one token: makes "compare, then delete" of a ref one step among writers of this server
}

const (
	maxObject = 1 << 40
	silence   = time.Minute
	// protocol is what the driver finds in every answer.
	protocol = "1"
)

// New offers the repository at the root of store, which stays the caller's.
func New(ctx context.Context, store blobstore.Store, o Options) (*Server, error) {
	r, err := repo.OpenUnchecked(ctx, store)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxObject <= 0 {
		o.MaxObject = maxObject
	}
	if o.Silence <= 0 {
		o.Silence = silence
	}
	s := &Server{o: o, store: store, layout: layout{dataDir: r.DataDir()}, grace: r.Grace(), metrics: newMetrics(), log: o.Log, refs: make(chan struct{}, 1)}
	if o.Tokens != "" {
		if s.tokens, err = openTokens(o.Tokens, o.Log); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Writers is how many tokens may write.
func (s *Server) Writers() int {
	if s.o.ReadOnly || s.tokens == nil {
		return 0
	}
	return s.tokens.count(rightWrite)
}

// Everybody reports whether reading needs no token.
func (s *Server) Everybody() bool { return s.tokens == nil || s.tokens.everybody() }

// Reload reads the file of tokens again; it is also looked at by itself. A
// file that cannot be read leaves the tokens as they were.
func (s *Server) Reload() error {
	if s.tokens == nil {
		return nil
	}
	return s.tokens.reload()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := newAnswer(s, w, r)
	defer a.done()
	h := a.Header()
	h.Set(blobstore.HeaderServe, protocol)
	h.Set("X-Content-Type-Options", "nosniff") // what is stored comes from strangers
	if err := s.route(a, r); err != nil {
		a.refuse(r, err)
	}
}

// route finds what is asked for and whether this client may.
func (s *Server) route(a *answer, r *http.Request) error {
	if s.o.Metrics && r.URL.Path == "/metrics" {
		a.op = "metrics"
		return s.serveMetrics(a, r)
	}
	key, kind, err := s.layout.find(r)
	a.key = key
	var need right
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		need, a.op = rightRead, "read"
	case http.MethodPut:
		need, a.op = rightWrite, "write"
	case http.MethodDelete:
		need, a.op = rightWrite, "delete"
	default:
		a.Header().Set("Allow", "GET, HEAD, PUT, DELETE")
		return no(http.StatusMethodNotAllowed, "", r.Method+" is not offered")
	}
	// Who may not read is not told what is there either.
	if perr := s.permit(a, r, need); perr != nil {
		return perr
	}
	if err != nil {
		return err
	}
	if kind == kindRoot {
		query := r.URL.Query()
		if need != rightRead || !query.Has("list") {
			return no(http.StatusNotFound, "", "nothing is here; a list is at ?list=PREFIX")
		}
		a.op = "list"
		return s.list(a, r, key, query.Get("list"))
	}
	switch {
	case need == rightRead && kind == kindNone:
		return no(http.StatusNotFound, "", "no such object")
	case need == rightRead:
		return s.read(a, r, key, kind)
	case kind == kindNone, kind == kindFormat:
		return no(http.StatusForbidden, "", "nothing is written at this place of a repository")
	case need == rightWrite && r.Method == http.MethodDelete:
		return s.remove(a, r, key, kind)
	}
	return s.write(a, r, key, kind)
}

// permit compares the client's token. Whoever it is goes into the log by name.
func (s *Server) permit(a *answer, r *http.Request, need right) error {
	if s.tokens == nil {
		if need == rightWrite {
			return no(http.StatusForbidden, blobstore.CodeReadOnly, "this server has no tokens: nothing can be written through it")
		}
		return nil
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	who, has := s.tokens.find(strings.TrimSpace(given), ok)
	a.who = who
	switch {
	case has >= need && need == rightWrite && s.o.ReadOnly:
		return no(http.StatusForbidden, blobstore.CodeReadOnly, "this server only reads")
	case has >= need:
		return nil
	case who == "":
		s.metrics.refused.WithLabelValues("token").Inc()
		a.Header().Set("WWW-Authenticate", `Bearer realm="tarn"`)
		what := "a token is needed"
		if ok {
			what = "no such token"
		}
		return no(http.StatusUnauthorized, "", what)
	}
	s.metrics.refused.WithLabelValues("right").Inc()
	return no(http.StatusForbidden, "", "the token of "+who+" may not do this")
}

// failure is an answer that says no.
type failure struct {
	status  int
	code    string // a word of the driver's, or empty
	message string // for people; shows nothing of the store's own address
	cause   error  // for the log
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.cause }

func no(status int, code, message string) error {
	return &failure{status: status, code: code, message: message}
}

// storeAnswers says what an error of the store behind is to a client.
var storeAnswers = []struct {
	err     error
	status  int
	code    string
	message string
}{
	{blobstore.ErrNotExist, http.StatusNotFound, "", "no such object"},
	{errFolder, http.StatusConflict, blobstore.CodeFolder, "an object is in the way of a folder, or the other way round"},
	{blobstore.ErrExists, http.StatusPreconditionFailed, "", "there is an object with other content"},
	{blobstore.ErrConflict, http.StatusPreconditionFailed, "", "the object has another version"},
	{blobstore.ErrBadKey, http.StatusBadRequest, blobstore.CodeKey, "the store cannot hold this name"},
	{blobstore.ErrFull, http.StatusInsufficientStorage, blobstore.CodeFull, "the store is full"},
	{blobstore.ErrReadOnly, http.StatusForbidden, blobstore.CodeReadOnly, "the store behind is read-only"},
	{blobstore.ErrCorrupt, http.StatusInternalServerError, blobstore.CodeCorrupt, "the object is damaged"},
	// The server's own keys were refused, not the client's.
	{blobstore.ErrPermission, http.StatusBadGateway, "", "the store behind refuses this server"},
	{blobstore.ErrNoBucket, http.StatusBadGateway, "", "the store behind is gone"},
	{blobstore.ErrTemporary, http.StatusServiceUnavailable, "", "the store behind cannot be reached"},
}

var errFolder = errors.New("serve: a folder is in the way")

// failed turns any error into an answer. What is not known is 500, without
// words: they may show what is nobody's to see.
func failed(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	for _, a := range storeAnswers {
		if errors.Is(err, a.err) {
			return &failure{a.status, a.code, a.message, err}
		}
	}
	return &failure{http.StatusInternalServerError, "", "internal error", err}
}

// wrap names what was being done.
func wrap(what, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, key, err)
}

// closeAll is a deferred Close whose error tells nobody anything.
func closeAll(c io.Closer) { _ = c.Close() }
