package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// echo is a store that refuses everything, with words of the request in its
// answer, as S3 does.
func echo(t testing.TB) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-ms-error-code", "AuthenticationFailed")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message><StringToSign>%s %s</StringToSign></Error>", r.URL, r.Header)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// files looks for a secret in every file below dir, however it is stored.
func (sb *sandbox) noCanaryBelow(dir string) {
	sb.t.Helper()
	if r := sb.sh(dir, "grep -rlaF canary- ."); r.code != 1 {
		sb.t.Errorf("files hold a secret:\n%s", r.out)
	}
}

// TestCanarySecrets: the secrets of each kind of store, in the environment as
// they should be, or in a URL as they should not, show nowhere: not in what
// commands say, at the most talkative, not in the process list, in files, in the
// dump of a dying daemon, in status and FAILED.txt, in metrics and access log.
func TestCanarySecrets(t *testing.T) {
	venv(t)
	t.Run("of S3, by commands and a mount", func(t *testing.T) {
		needFUSE(t)
		s, proxy := servers.VersitygwFor(t, canaryKey, canarySecret).Proxied(t)
		sb := onStore(t, s)
		sb.repo = s.URL("towns.lake")
		playCanary(t, sb, proxy, func() { sb.must(sb.dir, "tarn init '"+sb.repo+"'") })
	})
	t.Run("of tarn serve", func(t *testing.T) {
		needFUSE(t)
		home := newSandbox(t)
		home.must(home.dir, "tarn init "+home.repo)
		w := newWebServer(home, home.repo)
		s, proxy := servers.Web("tarn serve", w.address, "TARN_TOKEN="+writeToken).Proxied(t)
		sb := onStore(t, s)
		sb.repo = s.URL("")
		playCanary(t, sb, proxy, func() {})
		noCanary(t, "metrics", w.get("/metrics"))
	})
	t.Run("where everything is refused", func(t *testing.T) {
		sb := newSandbox(t)
		at := echo(t)
		host := strings.TrimPrefix(at, "http://")
		sb.env = append(sb.env,
			"AWS_ACCESS_KEY_ID="+canaryKey, "AWS_SECRET_ACCESS_KEY="+canarySecret, "AWS_SESSION_TOKEN=canary-session-77aa", "AWS_EC2_METADATA_DISABLED=true",
			"AZURE_STORAGE_ACCOUNT=account", "AZURE_STORAGE_SAS_TOKEN=sv=2024-01-01&sig=canary-sas-4411", "TARN_TOKEN="+writeToken)
		for _, url := range []string{
			"s3://bucket/lake?region=us-east-1&endpoint=" + at,
			"s3://bucket/lake?region=us-east-1&endpoint=http://127.0.0.1:1",
			"s3://canary-id:canary-pass@bucket/lake", "s3://bucket/lake?secret_key=canary-parameter", "s3://bucket/lake?region=canary-region&endpoint=" + at + "#canary-fragment",
			"azblob://box/lake?localemu=true&protocol=http&domain=" + host,
			"azblob://canary-user@box/lake", "azblob://box/lake?sig=canary-parameter",
			"gs://canary-user@bucket/lake", "gs://bucket/lake?key=canary-parameter",
			at + "/lake", "http://canary-user:canary-pass@" + host + "/lake", "http://canary-pass@" + host + "/lake", at + "/lake?token=canary-parameter",
			"https://canary-user:canary-pass@127.0.0.1:1/lake", "ftp://canary-user:canary-pass@127.0.0.1/lake", "https://canary-pass@%zz/lake",
		} {
			for _, cmd := range []string{"log", "--log-level debug log", "--json --log-level debug log", "doctor", "init", "clone", "mount", "gc --dry-run", "verify repo", "checkout main co"} {
				script := "tarn --repo '" + url + "' " + cmd
				switch cmd {
				case "doctor", "init":
					script = "tarn " + cmd + " '" + url + "'"
				case "clone":
					script = "tarn clone '" + url + "' copy.lake"
				case "mount":
					script = "tarn mount '" + url + "' " + sb.mnt
				}
				r := sb.sh(sb.dir, script)
				if r.code == 0 || r.code == 3 {
					t.Errorf("%s: exit code %d\n%s", script, r.code, r.out)
				}
				if strings.Contains(r.out, "canary-") {
					t.Errorf("%s shows a secret:\n%s", script, clip(r.out))
				}
			}
		}
		sb.noCanaryBelow(sb.dir)
	})
	t.Run("of Azure", func(t *testing.T) {
		s := servers.Azurite(t)
		sb := onStore(t, s)
		sb.env = append(sb.env, "AZURE_STORAGE_KEY=Y2FuYXJ5LWtleQ==") // canary-key
		r := sb.sh(sb.dir, "tarn --log-level debug init '"+s.URL("lake")+"'")
		if r.code != 15 || strings.Contains(r.out, "Y2FuYXJ5") {
			t.Errorf("with a wrong key: exit code %d\n%s", r.code, r.out)
		}
		sb.env = append(sb.env, "AZURE_STORAGE_KEY=canary-no-base64")
		r = sb.sh(sb.dir, "tarn --log-level debug init '"+s.URL("lake")+"'")
		if r.code == 0 || r.code == 3 {
			t.Errorf("with a key that is none: exit code %d\n%s", r.code, r.out)
		}
		noCanary(t, "the error", r.out)
	})
}

// playCanary works on a repository with commands and through a mount.
func playCanary(t *testing.T, sb *sandbox, proxy *servers.Proxy, begin func()) {
	begin()
	on := "tarn --log-level debug --repo '" + sb.repo + "' "
	var said strings.Builder
	say := func(dir, script string) {
		t.Helper()
		said.WriteString(sb.must(dir, script))
	}
	sb.write(filepath.Join(sb.home, "towns.csv"), townsCSV)
	say(sb.dir, on+"checkout main co && cp ~/towns.csv co/tables/ && cd co && tarn --log-level debug commit && tarn --log-level debug --json push && tarn --log-level debug status")
	say(sb.dir, on+"--json log && "+on+"verify --data && "+on+"gc --dry-run && "+on+"sql main 'FROM towns' && "+on+"show main && "+on+"clone '"+sb.repo+"' copy.lake")
	say(sb.dir, "tarn --log-level debug doctor '"+sb.repo+"' && tarn config && tarn --json config && tarn cache")
	say(sb.dir, "cat co/attach.sql copy.lake/fdl.json")

	sb.mount("--log-level", "debug")
	sb.must(sb.work(), "cp ~/towns.csv tables/more.csv && touch .commit")
	noCanary(t, "the process list", sb.must(sb.dir, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
	proxy.Inject(servers.Fault{Status: 403, Code: "AccessDenied"}, -1, nil)
	said.WriteString(sb.fails(sb.work(), "touch .push"))
	failed := sb.must(sb.work(), "cat FAILED.txt README.txt attach.sql .push .commit")
	if !strings.Contains(failed, "403") {
		t.Errorf("FAILED.txt and status:\n%s", failed)
	}
	proxy.Inject(servers.Fault{}, 0, nil)
	failed += sb.must(sb.work(), "cat status && touch .push && cat status log diff")
	// What a panic would print: the dump of everything that runs.
	for _, pid := range sb.daemons() {
		if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
	}
	sb.waitDaemonGone()
	log := sb.daemonLog()
	if !strings.Contains(log, "goroutine ") {
		t.Errorf("no dump in the log:\n%s", log)
	}
	for _, m := range []string{filepath.Join(sb.mnt, "work"), sb.mnt} {
		_ = syscall.Unmount(m, syscall.MNT_DETACH)
	}
	for what, text := range map[string]string{"a command": said.String(), "the working folder": failed, "the daemon's log": log} {
		noCanary(t, what, text)
	}
	if _, err := os.Stat(sb.home); err != nil {
		t.Fatal(err)
	}
	sb.noCanaryBelow(sb.dir)
}
