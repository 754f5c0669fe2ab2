package integration

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// Keys of an S3 server: like the tokens, they may be in environments alone.
const (
	canaryKey    = "canary-access-5f0d7e"
	canarySecret = "canary-secret-93ab40c17e"
)

// badAnswer is what a store answers to everything, and what becomes of a
// command that reads and of one that writes.
type badAnswer struct {
	name       string
	fault      servers.Fault
	read, push int
	// passes: said once it is not noticed.
	passes bool
}

var badAnswers = []badAnswer{
	{"401", servers.Fault{Status: 401}, 15, 15, false},
	{"403", servers.Fault{Status: 403, Code: "AccessDenied"}, 15, 15, false},
	{"404", servers.Fault{Status: 404, Code: "NoSuchKey"}, 10, 10, false},
	{"409", servers.Fault{Status: 409, Code: "ConditionalRequestConflict"}, 16, 16, true},
	{"412", servers.Fault{Status: 412, Code: "PreconditionFailed"}, 16, 16, true},
	{"429", servers.Fault{Status: 429, Code: "SlowDown"}, 16, 16, true},
	{"500", servers.Fault{Status: 500, Code: "InternalError"}, 16, 16, true},
	{"503", servers.Fault{Status: 503, Code: "ServiceUnavailable"}, 16, 16, true},
	{"slowly", servers.Fault{Slow: 300 * time.Millisecond}, 0, 0, true},
	{"half", servers.Fault{Half: true}, 16, 16, true},
	{"not at all", servers.Fault{Hang: true}, 16, 16, true},
	{"and breaks off", servers.Fault{Drop: true}, 16, 16, true},
	{"and is gone when it has done it", servers.Fault{Drop: true, After: true}, 16, 16, true},
}

// warning is the line of a call that is made again: who waits is told why.
var warning = regexp.MustCompile(`(?m)^time=\S+ level=WARN msg="store call is repeated" .*\n`)

// TestStoreAnswers: whatever S3 or a server of ours answers, for ever or once, a
// command ends with one line what and one what to do, and the exit code of the
// table; nothing is lost, and the push finishes when the store is well.
func TestStoreAnswers(t *testing.T) {
	s3 := servers.VersitygwFor(t, canaryKey, canarySecret)
	t.Run("stores", func(t *testing.T) { // ends when all that run beside each other have
		for _, a := range badAnswers {
			t.Run("versitygw answers "+a.name, func(t *testing.T) {
				t.Parallel()
				s, proxy := s3.Proxied(t)
				sb := onStore(t, s)
				url := s.URL(strings.ReplaceAll(a.name, " ", "-"))
				sb.must(sb.dir, "tarn init '"+url+"'")
				a.try(t, sb, proxy, url)
			})
			t.Run("tarn serve answers "+a.name, func(t *testing.T) {
				t.Parallel()
				home := newSandbox(t)
				home.must(home.dir, "tarn init "+home.repo)
				w := newWebServer(home, home.repo)
				s, proxy := servers.Web("tarn serve", w.address, "TARN_TOKEN="+writeToken).Proxied(t)
				a.try(t, onStore(t, s), proxy, s.URL(""))
			})
		}
	})
}

func (a badAnswer) try(t *testing.T, sb *sandbox, proxy *servers.Proxy, url string) {
	on := "tarn --repo '" + url + "' "
	well := func() { proxy.Inject(servers.Fault{}, 0, nil) }
	sb.must(sb.dir, on+"checkout main co")
	co := filepath.Join(sb.dir, "co")
	commit := func(n string) {
		t.Helper()
		sb.write(filepath.Join(co, "tables/main/t", n+".csv"), "x\n"+n+"\n")
		sb.must(co, "tarn commit")
	}
	commit("1")
	sb.must(co, "tarn push") // asks the store whether it is safe, once
	commit("2")

	said := func(cmd, dir string, want int) {
		t.Helper()
		r := sb.sh(dir, cmd)
		if r.code != want {
			t.Errorf("%s: exit code %d, want %d\n%s", cmd, r.code, want, r.out)
		}
		if want != 0 {
			twoLines(t, cmd, result{warning.ReplaceAllString(r.out, ""), r.code})
		}
		noCanary(t, cmd, r.out)
	}
	if !a.fault.Hang { // each is waited for
		proxy.Inject(a.fault, -1, nil)
		said(on+"log", sb.dir, a.read)
	}
	proxy.Inject(a.fault, -1, nil)
	said("tarn push", co, a.push)
	if proxy.Met() == 0 {
		t.Error("the push met nothing")
	}
	well()
	if out := sb.must(co, "tarn status"); a.push != 0 && !strings.Contains(out, "not pushed") {
		t.Errorf("after the push: %s", out)
	}
	sb.must(co, "tarn push")
	// Once, to the n-th request of a push.
	rounds := 3
	if a.fault.Hang {
		rounds = 1
	}
	for n := range rounds {
		commit(string(rune('3' + n)))
		left := 3*n + 1
		seen := 0
		proxy.Inject(a.fault, 1, func(*http.Request) bool { // one at a time, the proxy says
			seen++
			return seen > left
		})
		r := sb.sh(co, "tarn push")
		if proxy.Met() != 1 {
			t.Errorf("request %d: %d were met", left, proxy.Met())
		}
		if r.code != 0 && (a.passes || r.code == 3) {
			t.Errorf("once, request %d: exit code %d\n%s", left, r.code, r.out)
		}
		noCanary(t, "push", r.out)
		well()
		sb.must(co, "tarn push")
	}
	if out := sb.must(sb.dir, on+"verify --data && "+on+"log --oneline | wc -l"); !strings.Contains(out, "is whole") || !strings.HasSuffix(out, fmt.Sprintf("\n%d\n", 2+rounds)) {
		t.Errorf("at the end: %s", out)
	}
}
