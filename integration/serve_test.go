package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

// Tokens of the tests. They may be in the server's file and in environments,
// and nowhere else.
const (
	writeToken = "canary-write-1d9c07aa52"
	readToken  = "canary-read-77be2f0c61d4"
)

// webServer is a running `tarn serve`.
type webServer struct {
	sb      *sandbox
	repo    string
	address string // http://127.0.0.1:PORT
	cmd     *exec.Cmd
	logFile string
	args    []string
}

// newWebServer serves the repository at repo with the built binary. It must
// end in order, and its log must show no secret.
func newWebServer(sb *sandbox, repo string) *webServer {
	sb.t.Helper()
	tokens := sb.write(filepath.Join(sb.dir, "tokens"), "write ann "+writeToken+"\nread bob "+readToken+"\n")
	w := &webServer{sb: sb, repo: repo, logFile: filepath.Join(sb.dir, "serve.log"), args: []string{"--tokens", tokens, "--metrics"}}
	w.start("127.0.0.1:0")
	sb.t.Cleanup(func() {
		if w.cmd != nil {
			w.stop()
		}
		text, err := os.ReadFile(w.logFile)
		if err != nil || !strings.Contains(string(text), "status=") {
			sb.t.Errorf("the server's log: %v\n%s", err, text)
		}
		noCanary(sb.t, "the server's log", string(text))
	})
	return w
}

func noCanary(t testing.TB, what, text string) {
	t.Helper()
	if strings.Contains(text, "canary-") {
		t.Errorf("%s shows a secret:\n%s", what, text)
	}
}

func (w *webServer) start(listen string) {
	w.sb.t.Helper()
	out, err := os.OpenFile(w.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.sb.t.Fatal(err)
	}
	defer out.Close()
	args := append([]string{"serve", w.repo, "--listen", listen, "--json", "--log-level", "info"}, w.args...)
	w.cmd = w.sb.command(context.Background(), w.sb.dir, w.sb.bin, args...)
	w.cmd.Stderr = out
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		w.sb.t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		w.sb.t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(w.logFile)
		w.sb.t.Fatalf("tarn serve: %v\n%s", err, text)
	}
	var doc struct{ Address string }
	if err := json.Unmarshal([]byte(line), &doc); err != nil {
		w.sb.t.Fatalf("tarn serve prints %q", line)
	}
	w.address = doc.Address
}

// stop wants an orderly end.
func (w *webServer) stop() {
	w.sb.t.Helper()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	if err := w.cmd.Wait(); err != nil {
		w.sb.t.Errorf("tarn serve ended with %v", err)
	}
	w.cmd = nil
}

func (w *webServer) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	w.cmd = nil
}

// client is a user with a token who knows the repository by its URL alone.
func (w *webServer) client(token string) *sandbox {
	w.sb.t.Helper()
	sb := newSandbox(w.sb.t)
	if token != "" {
		sb.env = append(sb.env, "TARN_TOKEN="+token)
	}
	sb.repo = w.address
	return sb
}

// TestServeConformance: the built binary keeps every promise of a store.
func TestServeConformance(t *testing.T) {
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	w := newWebServer(sb, sb.repo)
	t.Setenv("TARN_TOKEN", writeToken)
	n := 0
	blobtest.Run(t, func(t testing.TB) blobstore.Store {
		n++
		s, err := blobstore.Open(t.Context(), fmt.Sprintf("%s/%ssuite-%d", w.address, blobstore.ProbePrefix, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// TestServeMount: the first two minutes on a served repository, through a real
// mount and by commands; the push uploads what was local until then.
func TestServeMount(t *testing.T) {
	venv(t)
	needFUSE(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	w := newWebServer(sb, sb.repo)
	ann := w.client(writeToken)
	ann.mount()
	ann.write(filepath.Join(ann.home, "towns.csv"), townsCSV)
	ann.must(ann.work(), "cp ~/towns.csv tables/ && touch .commit")
	if got := sb.must(sb.dir, "find "+sb.repo+"/data "+sb.repo+"/versions -type f 2>/dev/null | wc -l"); strings.TrimSpace(got) != "0" {
		t.Errorf("%s files in the repository before the push", got)
	}
	ann.must(ann.work(), "touch .push")
	if got := sb.must(sb.dir, "find "+sb.repo+"/data -type f | wc -l"); strings.TrimSpace(got) != "1" {
		t.Errorf("%s data files in the repository after the push", got)
	}
	rows := ann.must(ann.mnt, `duckdb -csv -noheader -init branches/main/attach.sql -c "SELECT sum(pop) FROM towns" 2>/dev/null`)
	if !strings.Contains(rows, "72") {
		t.Errorf("rows: %q", rows)
	}
	// What others see of a process: its command line.
	noCanary(t, "ps", ann.must(ann.dir, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
	inside := ann.must(ann.mnt, "tarn log && tarn verify --data")
	daemon := ann.daemonLog()
	ann.umount()
	outside := ann.must(ann.dir, "tarn log --repo "+w.address+" && tarn verify --data --repo "+w.address)
	if inside != outside || !strings.Contains(outside, "is whole") {
		t.Errorf("inside the mount:\n%soutside:\n%s", inside, outside)
	}
	noCanary(t, "the mount's log", daemon)

	// Commands alone: a plain checkout elsewhere, by URL.
	carl := w.client(writeToken)
	carl.write(filepath.Join(carl.home, "more.csv"), "id,name,pop\n4,Davos,11\n")
	carl.must(carl.dir, "tarn --repo "+w.address+" checkout main co && cp ~/more.csv co/tables/main/towns/ && cd co && tarn commit && tarn push")
	out := carl.must(carl.dir, `tarn sql --csv --repo `+w.address+` main "SELECT count(*) FROM towns"`)
	if !strings.Contains(out, "4") {
		t.Errorf("after the second push: %q", out)
	}

	// Who may only read reads, and is refused in words.
	bob := w.client(readToken)
	bob.mount()
	if got := bob.must(bob.mnt, "ls branches/main/tables/main/towns"); !strings.Contains(got, "more.parquet") {
		t.Errorf("bob sees %q", got)
	}
	bob.write(filepath.Join(bob.home, "b.csv"), "id,name,pop\n5,Egg,9\n")
	bob.must(bob.work(), "cp ~/b.csv tables/main/towns/ && touch .commit")
	r := bob.sh(bob.work(), "tarn push")
	if r.code != 15 || !strings.Contains(r.out, "403") {
		t.Errorf("push with a token for reading: exit code %d\n%s", r.code, r.out)
	}
	noCanary(t, "the refusal", r.out)
	bob.must(bob.dir, "tarn umount "+bob.mnt)
	for _, token := range []string{"", "canary-wrong-0000000000"} {
		eve := w.client(token)
		r := eve.sh(eve.dir, "tarn --json log --repo "+w.address)
		if r.code != 15 || !strings.Contains(r.out, "TARN_TOKEN") {
			t.Errorf("without a right token: exit code %d\n%s", r.code, r.out)
		}
		noCanary(t, "the refusal", r.out)
	}
	if text := w.get("/metrics"); !strings.Contains(text, "tarn_serve_requests_total") {
		t.Errorf("metrics:\n%s", text)
	} else {
		noCanary(t, "metrics", text)
	}
}

func (w *webServer) get(path string) string {
	w.sb.t.Helper()
	return w.sb.must(w.sb.dir, "python3 -c \"import urllib.request as u; print(u.urlopen('"+w.address+path+"').read().decode())\"")
}

// writtenPart is what a write of a push brings, by its path.
func writtenPart(path string) string {
	switch {
	case strings.HasPrefix(path, "/data/"):
		return "data file"
	case strings.HasPrefix(path, "/refs/"):
		return "ref"
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// TestServeKilled: a push writes six objects, in the order of the contract, and
// the server is killed at each of them in turn. The push ends with "unreachable", and again, with the server back,
// it finishes.
func TestServeKilled(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	w := newWebServer(sb, sb.repo)
	target, err := url.Parse(w.address)
	if err != nil {
		t.Fatal(err)
	}
	// Between client and server: notes writes, and at one of them ends both
	// the server and itself, as a machine does.
	var mu sync.Mutex // guards what follows
	var written []string
	var killAt int
	write := func(r *http.Request) (last bool) {
		mu.Lock()
		defer mu.Unlock()
		written = append(written, writtenPart(r.URL.Path))
		return len(written) == killAt
	}
	arm := func(n int) (before []string) {
		mu.Lock()
		defer mu.Unlock()
		before, written, killAt = written, nil, n
		return before
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	var srv *http.Server
	var once *sync.Once
	listen := func(address string) string {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		own := &http.Server{ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		end := &sync.Once{}
		own.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && write(r) {
				end.Do(func() { w.kill(); own.Close() })
				panic(http.ErrAbortHandler)
			}
			forward.ServeHTTP(rw, r)
		})
		srv, once = own, end
		go func() { _ = own.Serve(l) }() // ends with own.Close
		return l.Addr().String()
	}
	at := listen("127.0.0.1:0")
	t.Cleanup(func() { srv.Close() })
	proxy := "http://" + at
	ann := w.client(writeToken)
	ann.must(ann.dir, "tarn --repo "+proxy+" checkout main co")
	co := filepath.Join(ann.dir, "co")
	commit := func(n int) {
		t.Helper()
		ann.write(filepath.Join(co, "tables", "main", "t", fmt.Sprintf("f%d.csv", n)), fmt.Sprintf("id\n%d\n", n))
		ann.must(co, "tarn commit")
	}
	commit(100)
	ann.must(co, "tarn push") // asks the store whether it is safe, once
	arm(0)
	commit(101)
	if got := arm(0); len(got) > 0 {
		t.Errorf("a commit writes %q", got)
	}
	ann.must(co, "tarn push")
	want := []string{"data file", "ducklake.duckdb", "dataset.json", "files.json", "version.json", "ref"}
	if got := arm(0); !slices.Equal(got, want) {
		t.Fatalf("a push writes %q, want %q", got, want)
	}
	for n := range want {
		commit(n)
		arm(n + 1)
		r := ann.sh(co, "tarn push")
		if got := arm(0); !slices.Equal(got, want[:n+1]) {
			t.Errorf("killed at the %s: the push wrote %q", want[n], got)
		}
		if r.code != 16 {
			t.Errorf("push with the server killed at the %s: exit code %d\n%s", want[n], r.code, r.out)
		}
		noCanary(t, "the error", r.out)
		once.Do(func() {})
		w.start(target.Host)
		listen(at)
		ann.must(co, "tarn push")
	}
	out := ann.must(ann.dir, "tarn verify --data --repo "+proxy)
	if !strings.Contains(out, "is whole") {
		t.Error(out)
	}
}
