package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	webserve "github.com/tarnfs/tarn/serve" // serve is the daemon's socket here
)

// serveOptions are the flags of tarn serve.
type serveOptions struct {
	URL       string
	Listen    string
	ReadOnly  bool
	Tokens    string
	TLSCert   string
	TLSKey    string
	Metrics   bool
	MaxObject int64
	Spool     string
	Drain     time.Duration
}

func serveCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "offer a repository over HTTP",
		ArgsUsage: "URL",
		Category:  catRepository,
		Description: manual("Answers at http://ADDRESS until SIGTERM or SIGINT; requests under way are finished. The repository\nmay be in any store. Without --tokens everybody who can connect reads, and nobody writes. A line of the\nfile of tokens is RIGHT NAME TOKEN, with RIGHT read, write or metrics; it is read again when it changes,\nand on SIGHUP. Clients use the URL as that of any repository, with TARN_TOKEN or TARN_TOKEN_FILE.",
			"tarn serve /data/towns.lake --listen 127.0.0.1:8080 --tokens /etc/tarn/tokens",
			outcome.NotFound, outcome.Busy, outcome.Permission, outcome.Unreachable, outcome.Damaged),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8080", Usage: "answer at `ADDRESS`; port 0: any that is free"},
			&cli.BoolFlag{Name: "read-only", Usage: "refuse every write"},
			&cli.StringFlag{Name: "tokens", Usage: "`FILE` that says who may read and write"},
			&cli.StringFlag{Name: "tls-cert", Usage: "certificate chain in PEM: `FILE`"},
			&cli.StringFlag{Name: "tls-key", Usage: "its private key in PEM: `FILE`"},
			&cli.BoolFlag{Name: "metrics", Usage: "offer counts for Prometheus at /metrics, to this machine and to tokens"},
			&cli.StringFlag{Name: "max-object", Value: "1T", Usage: "refuse objects larger than `SIZE`"},
			&cli.StringFlag{Name: "spool", Usage: "keep bodies that are on their way in `DIR` (default: in the cache folder)"},
			&cli.DurationFlag{Name: "drain", Value: 30 * time.Second, Usage: "at the end wait `TIME` for requests under way"},
		},
		Action: action(h, 1, 1, func(c *cli.Context, k *call) error {
			o := serveOptions{
				URL: c.Args().First(), Listen: c.String("listen"), ReadOnly: c.Bool("read-only"), Tokens: c.String("tokens"),
				TLSCert: c.String("tls-cert"), TLSKey: c.String("tls-key"), Metrics: c.Bool("metrics"), Spool: c.String("spool"), Drain: c.Duration("drain"),
			}
			if err := o.complete(k, c.String("max-object")); err != nil {
				return err
			}
			return runServe(c.Context, k, o)
		}),
	}
}

func (o *serveOptions) complete(k *call, maxObject string) error {
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return usageError("serve: --tls-cert and --tls-key go together")
	}
	var err error
	if o.MaxObject, err = parseSize(maxObject); err != nil {
		return usageError("serve: --max-object %q is not a size, such as 500G", maxObject)
	}
	if o.URL, err = k.absoluteURL(o.URL); err != nil {
		return err
	}
	for _, p := range []*string{&o.Tokens, &o.TLSCert, &o.TLSKey, &o.Spool} {
		if *p == "" {
			continue
		}
		if *p, err = k.absolute(*p); err != nil {
			return err
		}
	}
	return nil
}

// serveDoc is what tarn serve prints once it answers.
type serveDoc struct {
	URL      string `json:"url"`
	Address  string `json:"address"` // http://HOST:PORT
	ReadOnly bool   `json:"read_only"`
	Writers  int    `json:"writers"`   // tokens that may write
	Everyone bool   `json:"everybody"` // reading needs no token
	PID      int    `json:"pid"`
}

// Text is the one line of success.
func (d serveDoc) Text() string {
	can := "read-only"
	if !d.ReadOnly {
		can = fmt.Sprintf("%d may write", d.Writers)
	}
	if d.Everyone {
		can += ", everybody reads"
	}
	return fmt.Sprintf("%s served at %s (%s)", d.URL, d.Address, can)
}

// runServe serves in this process until ctx ends.
func runServe(ctx context.Context, k *call, o serveOptions) error {
	scheme := "http"
	var tlsConfig *tls.Config
	if o.TLSCert != "" {
		scheme = "https"
		pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
		if err != nil {
			return outcome.Wrap(outcome.Usage, "the certificate or its key cannot be used", err, "give a PEM file for each of --tls-cert and --tls-key")
		}
		tlsConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	spool, err := o.spoolDir()
	if err != nil {
		return err
	}
	store, err := openStore(ctx, k, o.URL, o.ReadOnly || o.Tokens == "")
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	s, err := webserve.New(ctx, store, webserve.Options{
		ReadOnly: o.ReadOnly, Tokens: o.Tokens, Metrics: o.Metrics, MaxObject: o.MaxObject, Spool: spool, Log: k.Log,
	})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return listenError(o.Listen, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && tlsConfig == nil && o.Tokens != "" {
		k.Log.Warn("tokens come over the network unencrypted, unless a proxy before this server has TLS", "address", l.Addr().String())
	}
	d := serveDoc{
		URL: store.URL(), Address: scheme + "://" + l.Addr().String(), ReadOnly: s.Writers() == 0, Writers: s.Writers(),
		Everyone: s.Everybody(), PID: os.Getpid(),
	}
	if err := k.report(d); err != nil {
		_ = l.Close()
		return err
	}
	stop := reloadOnHangup(k, s)
	defer stop()
	return s.Run(ctx, l, webserve.RunOptions{TLS: tlsConfig, Drain: o.Drain})
}

// spoolDir is where bodies wait until they are whole. They have no name there.
func (o serveOptions) spoolDir() (string, error) {
	if o.Spool != "" {
		st, err := os.Stat(o.Spool)
		if err == nil && !st.IsDir() {
			err = errors.New("it is no folder")
		}
		if err != nil {
			return "", outcome.Wrap(outcome.Usage, "--spool "+o.Spool, err, "name a folder with room for the largest objects")
		}
		return o.Spool, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", nil // the system's folder for temporary files
	}
	dir := filepath.Join(base, "tarn", "spool")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", outcome.Wrap(outcome.Permission, "no place for bodies on their way", err, "name one with --spool DIR")
	}
	return dir, nil
}

// openStore opens the store of a repository by itself, without its tables.
func openStore(ctx context.Context, k *call, url string, readOnly bool) (blobstore.Store, error) {
	store, err := blobstore.Open(ctx, url, &blobstore.Options{ReadOnly: readOnly, Log: k.Log})
	switch {
	case errors.Is(err, blobstore.ErrNotExist):
		clean := blobstore.CleanURL(url)
		return nil, outcome.New(outcome.NotFound, "no such repository: "+clean, "check the path; to make one: tarn init "+clean)
	case err != nil:
		return nil, err
	}
	return store, nil
}

func listenError(address string, err error) error {
	what := "cannot listen at " + address
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return outcome.Wrap(outcome.Busy, what, syscall.EADDRINUSE, "end what listens there, or choose another address with --listen")
	case errors.Is(err, fs.ErrPermission):
		return outcome.Wrap(outcome.Permission, what, syscall.EACCES, "choose a port above 1023")
	}
	return outcome.Wrap(outcome.Usage, what, err, "an address is HOST:PORT, such as 127.0.0.1:8080")
}

// reloadOnHangup reads the tokens again on SIGHUP.
func reloadOnHangup(k *call, s *webserve.Server) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-signals:
				if err := s.Reload(); err != nil {
					k.Log.Error("the file of tokens cannot be read again: those of before count", "err", err)
				}
			}
		}
	}()
	return func() { signal.Stop(signals); close(done); <-ended }
}
