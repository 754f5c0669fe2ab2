package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/serve"
)

// farStage is a repository on a store that is no folder, which each process
// finds in the same state.
type farStage struct {
	t      testing.TB
	url    string
	dir    string
	behind blobstore.Store // past the rules of a server
	folder string          // tarn serve: where it lies
	aged   bool            // processes take what is there for old
	last   repo.ID         // committed and, for push, not published
	all    map[string][]byte
}

func (s *farStage) home() string { return filepath.Join(s.dir, "home") }

// open is an engine of this process, with the state of name.
func (s *farStage) open(name string) (*engine.Engine, *engine.Work) {
	s.t.Helper()
	c := lake.NewClient(nil)
	s.t.Cleanup(func() { c.Close() })
	home := filepath.Join(s.dir, name)
	e, err := engine.Open(s.t.Context(), engine.Options{URL: s.url, StateHome: filepath.Join(home, "state"), CacheHome: filepath.Join(home, "cache"), Author: "Far", Worker: c})
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := e.OpenWork(s.t.Context(), "main")
	if err != nil {
		s.t.Fatal(err)
	}
	return e, w
}

// keep notes the state that each process finds.
func (s *farStage) keep() {
	s.t.Helper()
	s.all = map[string][]byte{}
	for _, key := range listKeys(s.t, s.behind) {
		s.all[key] = s.read(key)
	}
	s.copy("home", "template")
}

func (s *farStage) read(key string) []byte {
	s.t.Helper()
	r, _, err := s.behind.Get(s.t.Context(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// reset brings the store and the state back to what keep noted.
func (s *farStage) reset() {
	s.t.Helper()
	there := map[string]bool{}
	for _, key := range listKeys(s.t, s.behind) {
		if want, ok := s.all[key]; ok && bytes.Equal(want, s.read(key)) {
			there[key] = true
		} else if err := s.behind.Delete(s.t.Context(), key); err != nil {
			s.t.Fatal(err)
		}
	}
	for key, data := range s.all {
		if there[key] {
			continue
		}
		if _, err := s.behind.PutIfAbsent(s.t.Context(), key, blobstore.BytesBody(data)); err != nil {
			s.t.Fatal(err)
		}
	}
	if s.folder != "" && !s.aged {
		long := time.Now().Add(-3 * week)
		err := filepath.WalkDir(s.folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return os.Chtimes(path, long, long)
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.copy("template", "home")
}

func (s *farStage) copy(from, to string) {
	s.t.Helper()
	to = filepath.Join(s.dir, to)
	if err := os.RemoveAll(to); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(s.dir, from), to).CombinedOutput(); err != nil {
		s.t.Fatalf("copy: %v: %s", err, out)
	}
}

// run does a verb in a process of its own.
func (s *farStage) run(verb, mode string, n int) (r farReport, killed bool) {
	s.t.Helper()
	arg, err := json.Marshal(farJob{URL: s.url, Home: s.home(), Verb: verb, Mode: mode, N: n, Aged: s.aged && verb == "gc"})
	if err != nil {
		s.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), farEnv+"="+string(arg))
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
		return r, true
	}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &r)
	}
	if err != nil {
		s.t.Fatalf("%s, %s call %d: %v\n%s", verb, mode, n, err, errs.String())
	}
	return r, false
}

// eachCall lets each call of a verb go wrong in each mode, in turn, and the verb
// be asked for again; state is what must hold in between, end afterwards.
func (s *farStage) eachCall(verb string, modes []string, every int, state, end func()) {
	s.t.Helper()
	s.reset()
	whole, killed := s.run(verb, "", 0)
	if killed || whole.Err != "" || len(whole.Calls) < 8 {
		s.t.Fatalf("an undisturbed %s: %+v", verb, whole)
	}
	end()
	tried, start := 0, time.Now()
	for i, call := range whole.Calls {
		for _, mode := range modes {
			writes := call.Op.Writes()
			if (mode == after || mode == lost) && !writes || (i+len(modes))%every != 0 {
				continue // as if it had failed
			}
			tried++
			s.reset()
			r, killed := s.run(verb, mode, i)
			if killed != (mode == dies || mode == after) {
				s.t.Errorf("killed: %v, %+v", killed, r)
			}
			state()
			if again, killed := s.run(verb, "", 0); killed || again.Err != "" {
				s.t.Errorf("again: %s", again.Err)
			}
			end()
			if s.t.Failed() {
				s.t.Fatalf("%s, call %d of %d, %s %s: %s", verb, i, len(whole.Calls), call.Op, call.Key, mode)
			}
		}
	}
	s.t.Logf("%s: %d calls, of which one went wrong %d times, in %s", verb, len(whole.Calls), tried, time.Since(start).Round(time.Second))
}

// check is `tarn verify repo --data`, and gives the line of main.
func (s *farStage) check() []repo.ID {
	s.t.Helper()
	r, err := repo.Open(s.t.Context(), s.behind)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := r.CheckWith(s.t.Context(), repo.CheckOptions{Data: true})
	if err != nil {
		s.t.Fatal(err)
	}
	for f := range repo.Faults(found) {
		s.t.Errorf("check: %v", f)
	}
	tip, _, err := r.Ref(s.t.Context(), "refs/heads/main")
	if err != nil {
		s.t.Fatal(err)
	}
	var line []repo.ID
	for v, err := range r.History(s.t.Context(), tip) {
		if err != nil {
			s.t.Fatal(err)
		}
		line = append(line, v.ID)
	}
	return line
}

// littleOutlives: no version.json names what is not there, whoever names it.
func (s *farStage) littleOutlives() {
	s.t.Helper()
	all := listKeys(s.t, s.behind)
	for _, key := range all {
		folder, ok := strings.CutSuffix(key, "/"+repo.VersionFile)
		if !ok {
			continue
		}
		v, err := repo.DecodeVersion(s.read(key), repo.ID(strings.TrimPrefix(folder, "versions/")))
		if err != nil {
			s.t.Fatal(err)
		}
		for name := range v.SHA256 {
			if !slices.Contains(all, folder+"/"+name) {
				s.t.Errorf("version %s has a version.json and no %s", v.ID, name)
			}
		}
	}
}

// farStores are those that processes die on, and of how many calls one goes
// wrong unless there is time.
func farStores(t *testing.T, test func(t *testing.T, s *farStage, every int)) {
	if testing.Short() {
		t.Skip("some hundred processes")
	}
	for _, k := range objectStores {
		t.Run(k.name, func(t *testing.T) {
			server := k.start(t)
			server.Setenv(t)
			s := &farStage{t: t, dir: t.TempDir(), url: server.URL("far"), aged: true}
			s.begin(s.url)
			every := 1
			if k.name != "versitygw" && !long() {
				every = 3
			}
			test(t, s, every)
		})
	}
	t.Run("tarn serve", func(t *testing.T) {
		dir := t.TempDir()
		s := &farStage{t: t, dir: dir, folder: filepath.Join(dir, "towns.lake")}
		s.begin(s.folder)
		const token = "far-0123456789abcdef"
		tokens := filepath.Join(dir, "tokens")
		if err := os.WriteFile(tokens, []byte("write far "+token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := serve.New(t.Context(), s.behind, serve.Options{Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(h)
		t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
		t.Setenv("TARN_TOKEN", token)
		s.url = web.URL
		test(t, s, 1)
	})
}

// begin makes the repository at url.
func (s *farStage) begin(url string) {
	s.t.Helper()
	if _, err := engine.Init(s.t.Context(), url, engine.InitOptions{}); err != nil {
		s.t.Fatal(err)
	}
	var err error
	if s.behind, err = blobstore.Open(s.t.Context(), url, nil); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.behind.Close() })
}

// modesOf: kill -9 everywhere; the rest, which goes the same ways in this
// process on a folder, on one store, and on all when there is time.
func modesOf(t *testing.T) []string {
	if long() || strings.HasSuffix(t.Name(), "/fake-gcs-server") {
		return []string{dies, after, fails, lost}
	}
	return []string{dies, after}
}

// TestPushDiesAtEachStoreCall: at every store call of a push, before and after
// it, the process is killed, or the call fails or its answer is lost: the
// repository is whole, the branch is where it was or at the new version, and the
// second push finishes.
func TestPushDiesAtEachStoreCall(t *testing.T) {
	farStores(t, func(t *testing.T, s *farStage, every int) {
		e, w := s.open("home")
		drop(t, w, "main/t/a.csv", "x\n1\n")
		commit(t, w)
		first := push(t, w).Tip
		drop(t, w, "main/t/a.csv", "x\n2\n")
		drop(t, w, "main/t/b.csv", "x\n3\n")
		s.last = commit(t, w).ID
		e.Close()
		s.keep()
		s.eachCall("push", modesOf(t), every, func() {
			if line := s.check(); !slices.Equal(line, []repo.ID{first}) && !slices.Equal(line, []repo.ID{s.last, first}) {
				t.Errorf("main is %v", line)
			}
		}, func() {
			if line := s.check(); !slices.Equal(line, []repo.ID{s.last, first}) {
				t.Errorf("after a second push main is %v", line)
			}
		})
	})
}

// TestGCDiesAtEachStoreCall: the same for a garbage collection: what refs reach
// is whole, no version.json outlives what it speaks of, and the second
// collection leaves what an undisturbed one leaves.
func TestGCDiesAtEachStoreCall(t *testing.T) {
	farStores(t, func(t *testing.T, s *farStage, every int) {
		e, w := s.open("home")
		drop(t, w, "main/t/a.csv", "x\n1\n")
		commit(t, w)
		first := push(t, w).Tip
		for i := range 2 {
			drop(t, w, "main/t/a.csv", fmt.Sprintf("x\n2\n%d\n", i))
			commit(t, w)
			push(t, w)
		}
		// The branch is set back: two versions are garbage.
		r := e.Repository()
		_, state, err := r.Ref(t.Context(), "refs/heads/main")
		if err == nil {
			_, err = r.SetRef(t.Context(), "refs/heads/main", state, first)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		s.keep()
		var left []string // by an undisturbed one
		s.eachCall("gc", modesOf(t), every, func() {
			s.check()
			s.littleOutlives()
		}, func() {
			s.check()
			all := slices.DeleteFunc(listKeys(t, s.behind), func(key string) bool { return key == repo.GCMarkFile })
			if left == nil {
				left = all
			}
			if len(left) >= len(s.all) || len(left) < 6 {
				t.Errorf("%d of %d objects are left", len(left), len(s.all))
			}
			if diff := cmp.Diff(left, all); diff != "" {
				t.Errorf("left (-undisturbed +got):\n%s", diff)
			}
		})
	})
}
