package integration

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// place is a repository on a store that is no folder, reached through a proxy.
type place struct {
	sb    *sandbox
	s     *servers.Server
	proxy *servers.Proxy
	url   string
	// folder is where tarn serve has it.
	folder string
}

// shortGrace is the grace period of the repository of a place: what a test
// leaves unnamed is old after it.
const shortGrace = time.Second

// onPlaces runs a test on a new repository on each kind of store.
func onPlaces(t *testing.T, test func(t *testing.T, p *place)) {
	for _, k := range []struct {
		name  string
		start func(testing.TB) *servers.Server
	}{{"versitygw", servers.Versitygw}, {"azurite", servers.Azurite}, {"fake-gcs-server", servers.FakeGCS}} {
		t.Run(k.name, func(t *testing.T) {
			s, proxy := k.start(t).Proxied(t)
			p := &place{sb: onStore(t, s), s: s, proxy: proxy, url: s.URL("towns.lake")}
			p.sb.must(p.sb.dir, "tarn init '"+p.url+"'")
			test(t, p)
		})
	}
	t.Run("tarn serve", func(t *testing.T) {
		sb := newSandbox(t)
		sb.must(sb.dir, "tarn init "+sb.repo+` && sed -i 's/"grace_period": *"[^"]*"/"grace_period": "`+shortGrace.String()+`"/' `+sb.repo+"/fdl.json && grep -q '\""+shortGrace.String()+"\"' "+sb.repo+"/fdl.json")
		w := newWebServer(sb, sb.repo)
		s, proxy := servers.Web("tarn serve", w.address, "TARN_TOKEN="+writeToken).Proxied(t)
		test(t, &place{sb: onStore(t, s), s: s, proxy: proxy, url: s.URL(""), folder: sb.repo})
	})
}

// killAt runs a command whose n-th request of a kind is never answered, nor any
// after it, and kills it there.
func (p *place) killAt(kind func(*http.Request) bool, n int, script string) {
	p.sb.t.Helper()
	seen := 0
	p.proxy.Inject(servers.Fault{Hang: true}, -1, func(r *http.Request) bool { // one at a time, the proxy says
		if kind(r) {
			seen++
		}
		return seen >= n
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := p.sb.command(ctx, p.sb.dir, "bash", "-c", "exec "+script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.sb.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for end := time.Now().Add(30 * time.Second); p.proxy.Met() == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-ended:
			p.sb.t.Fatalf("%s ended before its request %d: %v\n%s", script, n, err, out.String())
		default:
		}
	}
	cancel() // SIGKILL
	<-ended
	if p.proxy.Met() == 0 {
		p.sb.t.Fatalf("%s came to no request %d\n%s", script, n, out.String())
	}
	p.proxy.Inject(servers.Fault{}, 0, nil)
}

func method(name string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == name }
}

// TestCollectCloneVerifyOnStores: the built binary collects garbage, clones and
// verifies on each store: as a dry run, killed in the middle, and to the end.
func TestCollectCloneVerifyOnStores(t *testing.T) {
	venv(t)
	onPlaces(t, func(t *testing.T, p *place) {
		sb, on := p.sb, "tarn --repo '"+p.url+"' "
		sb.must(sb.dir, on+"checkout main co")
		sb.write(filepath.Join(sb.dir, "co/tables/main/towns/a.csv"), "id,name\n1,Aarau\n2,Brig\n")
		sb.must(sb.dir, "cd co && tarn commit && tarn push")
		// A branch with two versions, which is then deleted.
		sb.must(sb.dir, on+"branch side main && "+on+"checkout side side")
		for _, name := range []string{"b", "c"} {
			sb.write(filepath.Join(sb.dir, "side/tables/main/towns", name+".csv"), "id,name\n7,"+name+"\n")
			sb.must(sb.dir, "cd side && tarn commit && tarn push")
		}
		sb.must(sb.dir, on+"branch --delete --force side")
		young := sb.must(sb.dir, on+"gc --dry-run --grace 1h")
		if !strings.Contains(young, "would delete 0 objects") || !strings.Contains(young, "8 of them unreached but not older than") {
			t.Errorf("what is young: %s", young)
		}
		time.Sleep(2*shortGrace + 200*time.Millisecond) // stores tell time in seconds
		gc := on + "gc --grace " + shortGrace.String()
		dry := sb.must(sb.dir, gc+" --dry-run")
		if again := sb.must(sb.dir, gc+" --dry-run"); !strings.Contains(dry, "would delete 10 objects") || !strings.Contains(dry, "2 versions") || again != dry {
			t.Errorf("dry runs:\n%s%s", dry, again)
		}

		// The first deletions are those of the two version.json.
		p.killAt(method(http.MethodDelete), 5, gc)
		whole := func(url string) {
			t.Helper()
			if out := sb.must(sb.dir, "tarn --repo '"+url+"' verify --data"); !strings.Contains(out, "is whole") {
				t.Errorf("verify: %s", out)
			}
		}
		whole(p.url)
		if out := sb.must(sb.dir, gc); !strings.Contains(out, "deleted ") || strings.Contains(out, "deleted 0 ") {
			t.Errorf("gc after one that was killed: %s", out)
		}
		if out := sb.must(sb.dir, gc+" --dry-run"); !strings.Contains(out, "would delete 0 objects") {
			t.Errorf("gc left: %s", out)
		}
		whole(p.url)
		if p.s.Name == "tarn serve" { // else a push would take itself for one that slept
			sb.must(p.folder, "sed -i 's/"+shortGrace.String()+"/168h/' fdl.json")
		}
		// A push goes on, from the working folder of before.
		sb.write(filepath.Join(sb.dir, "co/tables/main/towns/d.csv"), "id,name\n3,Chur\n")
		sb.must(sb.dir, "cd co && tarn commit && tarn push")
		log := sb.must(sb.dir, on+"log")

		// Clone to a folder, and, where one can make a repository, back.
		p.killAt(method(http.MethodGet), 12, "tarn clone '"+p.url+"' "+sb.dir+"/copy.lake")
		if out := sb.fails(sb.dir, "tarn --repo copy.lake log"); !strings.Contains(out, "not a repository") {
			t.Errorf("a part of a clone: %s", out)
		}
		copies := []string{filepath.Join(sb.dir, "copy.lake")}
		sb.must(sb.dir, "tarn clone '"+p.url+"' "+copies[0])
		if p.s.Name != "tarn serve" {
			back := p.s.URL("back.lake")
			p.killAt(servers.Writes, 5, "tarn clone "+copies[0]+" '"+back+"'")
			sb.must(sb.dir, "tarn clone "+copies[0]+" '"+back+"'")
			copies = append(copies, back)
		}
		for _, url := range copies {
			whole(url)
			if got := sb.must(sb.dir, "tarn --repo '"+url+"' log"); got != log {
				t.Errorf("log of %s:\n%swant\n%s", url, got, log)
			}
			if got := sb.must(sb.dir, "tarn sql --csv --repo '"+url+"' main 'SELECT count(*) AS n FROM towns'"); got != "n\n3\n" {
				t.Errorf("rows of %s: %q", url, got)
			}
		}
	})
}
