package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const townsCSV = "id,name,pop\n1,Aarau,21\n2,Brig,13\n3,Chur,38\n"

// moreCSV has 17 lines; the last one's pop is no number.
func moreCSV() string {
	var b strings.Builder
	b.WriteString("id,name,pop\n")
	for i := range 15 {
		fmt.Fprintf(&b, "%d,Town%d,%d\n", i+10, i, i)
	}
	b.WriteString("99,Zug,n/a\n")
	return b.String()
}

var (
	maskID   = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}\b(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?`)
	ansi     = regexp.MustCompile("\x1b\\[[0-9;]*m")
	initNote = regexp.MustCompile(`(?m)^-- Loading resources from .*\n`)
)

// TestTranscript runs the README's first two minutes against the built binary
// and compares every line, with IDs masked.
func TestTranscript(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	needFUSE(t)
	playTranscript(t, sb, sb.repo, sb.repo)
	sb.umount()
}

// playTranscript runs the README's commands on the repository at that URL,
// which commands show as shown.
func playTranscript(t *testing.T, sb *sandbox, url, shown string) {
	t.Helper()
	sb.keep(sb.mnt)
	sb.write(filepath.Join(sb.home, "towns.csv"), townsCSV)
	sb.write(filepath.Join(sb.home, "more.csv"), moreCSV())

	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "<!-- transcript:")
	if !ok {
		t.Fatal("README.md has no transcript")
	}
	_, rest, _ = strings.Cut(rest, "-->")
	block, _, _ := strings.Cut(rest, "<!-- end of transcript -->")

	toReal := strings.NewReplacer("/data/towns.lake", "'"+url+"'", "/mnt/towns", sb.mnt, "~/", sb.home+"/")
	toShown := strings.NewReplacer(shown, "/data/towns.lake", sb.mnt, "/mnt/towns")
	var want, got []string
	cwd := sb.dir
	lines := strings.Split(strings.Trim(block, "\n"), "\n")
	if strings.HasPrefix(url, "http") {
		lines = lines[2:] // init and its answer: what is served is there already
	}
	for _, line := range lines {
		line = strings.TrimPrefix(line, "    ")
		want = append(want, line)
		cmd, isCommand := strings.CutPrefix(line, "$ ")
		if !isCommand {
			continue
		}
		got = append(got, line)
		pwd := filepath.Join(sb.dir, "pwd")
		r := sb.sh(cwd, toReal.Replace(cmd)+"\npwd > "+pwd)
		if b, err := os.ReadFile(pwd); err == nil {
			cwd = strings.TrimSpace(string(b))
		}
		out := initNote.ReplaceAllString(ansi.ReplaceAllString(r.out, ""), "")
		if out = strings.TrimRight(out, "\n"); out != "" {
			got = append(got, strings.Split(toShown.Replace(out), "\n")...)
		}
	}
	mask := func(lines []string) string { return maskID.ReplaceAllString(strings.Join(lines, "\n"), "<ID>") }
	if d := cmp.Diff(mask(want), mask(got)); d != "" {
		t.Errorf("transcript (-README +run):\n%s%s", d, sb.daemonLog())
	}
}
