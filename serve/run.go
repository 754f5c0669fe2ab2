package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// RunOptions of Run. The zero value works.
type RunOptions struct {
	TLS *tls.Config // nil: plain HTTP
	// Drain is how long requests that are under way may go on once ctx has
	// ended; 0: 30 s.
	Drain time.Duration
}

const (
	headerTime  = 10 * time.Second
	idleTime    = 2 * time.Minute
	drainTime   = 30 * time.Second
	headerBytes = 64 << 10
)

// Run answers on l, which it closes, until ctx ends; then it takes no new
// requests, lets those under way end, and returns nil. What has not ended
// after Drain is broken off: its writes have happened or not, as after any
// lost connection.
func (s *Server) Run(ctx context.Context, l net.Listener, o RunOptions) error {
	if o.Drain <= 0 {
		o.Drain = drainTime
	}
	if o.TLS != nil {
		// HTTP/1.1 alone: deadlines are of connections, and parallel transfers
		// over one connection share its window.
		o.TLS.NextProtos = []string{"http/1.1"}
		l = tls.NewListener(l, o.TLS)
	}
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: min(headerTime, s.o.Silence),
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.log.Info("ending: requests under way are finished", "at_most", o.Drain)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Drain)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		s.log.Warn("requests were broken off", keyErr, err)
		_ = srv.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
