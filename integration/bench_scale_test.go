package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// costly runs a command that may take minutes and says what it cost: its time,
// its processor time with that of its workers, and the greatest resident set
// of any of them.
func (sb *sandbox) costly(dir, name string, args ...string) (took, cpu time.Duration, peak int64) {
	sb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cmd := sb.command(ctx, dir, name, args...)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		sb.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	took = time.Since(start)
	return took, used(cmd), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

func used(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// BenchmarkScale checks a version of 100,000 data files out (TARN_BENCH_FILES:
// another number), and clones the repository: to a folder, and to versitygw and
// back from there.
func BenchmarkScale(b *testing.B) {
	files := 100_000
	if s := os.Getenv("TARN_BENCH_FILES"); s != "" {
		var err error
		if files, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	s := servers.Versitygw(b)
	s.Setenv(b)
	sb := newSandbox(b)
	sb.env = append(sb.env, s.Env()...)
	sb.damaged = true // not looked at in the end: that takes longer than what is measured
	co := filepath.Join(sb.dir, "co")
	sb.must(sb.dir, "tarn init "+sb.repo+" && tarn -C "+sb.repo+" checkout main "+co)
	sb.write(co+"/tables/main/many/seed.csv", "id,name,v\n1,a,0.5\n2,b,1.5\n3,c,2.5\n")
	sb.must(co, "tarn commit")
	grow, err := filepath.Abs("testdata/grow_catalog.py")
	if err != nil {
		b.Fatal(err)
	}
	sb.long(co, filepath.Join(venv(b), "bin", "python"), grow, "catalog/lake.sqlite", filepath.Join(sb.repo, "data"), strconv.Itoa(files))
	sb.long(co, sb.bin, "commit")
	sb.long(co, sb.bin, "push")
	away := s.URL("copy.lake")
	for _, step := range []struct {
		name string
		args []string
	}{
		{"checkout", []string{"-C", sb.repo, "checkout", "main", filepath.Join(sb.dir, "out")}},
		{"clone-folder", []string{"clone", sb.repo, filepath.Join(sb.dir, "copy.lake")}},
		{"clone-to-s3", []string{"clone", sb.repo, away}},
		{"clone-from-s3", []string{"clone", away, filepath.Join(sb.dir, "back.lake")}},
		{"checkout-s3", []string{"--repo", away, "checkout", "main", filepath.Join(sb.dir, "out3")}},
	} {
		b.Run(step.name, func(b *testing.B) {
			took, cpu, peak := sb.costly(sb.dir, sb.bin, step.args...)
			b.ReportMetric(took.Seconds()*1000, "ms")
			b.ReportMetric(cpu.Seconds()*1000, "cpu-ms")
			b.ReportMetric(float64(peak)/1e6, "MB")
		})
	}
}
