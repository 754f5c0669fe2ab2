package integration

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// BenchmarkStores moves the same files by the store of this tree, by the raw
// SDK and, where it is installed (integration/setup/setup.sh bench), by rclone,
// in turn, against versitygw: files of 1 GiB together (TARN_BENCH_MIB: another
// size) and 2,000 small ones. It reports medians in MB/s or files/s, the
// ratios of ours to the others'. The SDK is asked for what ours asks for: nothing
// is replaced, and a sha256 that is known goes along. cpu-ms is the time on the processors of client and
// server together, which another program's work disturbs less.
func BenchmarkStores(b *testing.B) {
	total := 1024
	if s := os.Getenv("TARN_BENCH_MIB"); s != "" {
		var err error
		if total, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	for _, set := range []struct {
		name            string
		files, size     int
		workers, rounds int
	}{
		{"large", 8, total << 20 / 8, 4, 3},
		{"small", 2000, 64 << 10, 16, 3},
	} {
		b.Run(set.name, func(b *testing.B) {
			s := servers.Versitygw(b)
			for _, kv := range s.Env() {
				name, value, _ := strings.Cut(kv, "=")
				b.Setenv(name, value)
			}
			m := newMover(b, s, set.files, set.size, set.workers)
			movers := map[string][2]func(prefix, dir string) error{
				"tarn": {m.tarnUp, m.tarnDown}, "sdk": {m.sdkUp, m.sdkDown},
			}
			if m.rclone != "" {
				movers["rclone"] = [2]func(prefix, dir string) error{m.rcloneUp, m.rcloneDown}
			}
			names := []string{"tarn", "sdk", "rclone"}
			took, used := map[string][]time.Duration{}, map[string][]time.Duration{}
			b.ResetTimer()
			for round := range set.rounds + 1 { // the first is not counted: memory is new then
				for i := range names {
					name := names[(i+round)%len(names)] // none is always first
					move, ok := movers[name]
					if !ok {
						continue
					}
					prefix := fmt.Sprintf("%s-%d-%d", name, round, b.N)
					dir := filepath.Join(b.TempDir(), prefix)
					if err := os.MkdirAll(dir, 0o755); err != nil {
						b.Fatal(err)
					}
					for way, f := range move {
						unix.Sync() // or one pays for what another has written
						start, cpu := time.Now(), processorTime(b)
						if err := f(prefix, dir); err != nil {
							b.Fatalf("%s: %v", name, err)
						}
						key := name + []string{" up", " down"}[way]
						if round > 0 {
							took[key] = append(took[key], time.Since(start))
							used[key] = append(used[key], processorTime(b)-cpu)
						}
					}
					if got, err := os.ReadDir(dir); err != nil || len(got) != set.files {
						b.Fatalf("%s brought %d files, %v", name, len(got), err)
					}
					if err := os.RemoveAll(dir); err != nil {
						b.Fatal(err)
					}
					if err := os.RemoveAll(filepath.Join(s.Dir, servers.Bucket, prefix)); err != nil {
						b.Fatal(err)
					}
				}
			}
			for key := range took {
				rate, unit := float64(set.files)*float64(set.size)/1e6/median(took[key]).Seconds(), "-MB/s"
				if set.name == "small" {
					rate, unit = float64(set.files)/median(took[key]).Seconds(), "-files/s"
				}
				name := strings.ReplaceAll(key, " ", "-")
				b.ReportMetric(rate, name+unit)
				b.ReportMetric(median(used[key]).Seconds()*1000, name+"-cpu-ms")
			}
			for _, way := range []string{"up", "down"} {
				for _, peer := range names[1:] {
					if key := peer + " " + way; len(took[key]) > 0 {
						b.ReportMetric(median(took[key]).Seconds()/median(took["tarn "+way]).Seconds(), way+"-of-"+peer)
					}
				}
			}
		})
	}
}

// processorTime is what this process, its children that have ended, and the
// servers that it has started have used of the processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var total time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after) // from the third on
		if err != nil || len(fields) < 15 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, f := range fields[11:13] {
			ticks, _ := strconv.ParseInt(f, 10, 64)
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total
}

// mover has one set of files to move.
type mover struct {
	b       *testing.B
	s       *servers.Server
	dir     string // the files
	names   []string
	sums    []string
	size    int64
	workers int
	sdk     *s3.Client
	rclone  string
}

func newMover(b *testing.B, s *servers.Server, files, size, workers int) *mover {
	m := &mover{b: b, s: s, dir: b.TempDir(), size: int64(size), workers: workers}
	data := make([]byte, size)
	for i := range files {
		_, _ = rand.Read(data)
		sum := sha256.Sum256(data)
		name := fmt.Sprintf("file-%04d", i)
		if err := os.WriteFile(filepath.Join(m.dir, name), data, 0o644); err != nil {
			b.Fatal(err)
		}
		m.names, m.sums = append(m.names, name), append(m.sums, hex.EncodeToString(sum[:]))
	}
	env := map[string]string{}
	for _, kv := range s.Env() {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	m.sdk = s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Endpoint), UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	if cache, err := os.UserCacheDir(); err == nil {
		if path := filepath.Join(cache, "tarn-dev", "servers", "bin", "rclone"); exec.Command(path, "version").Run() == nil {
			m.rclone = path
		}
	}
	return m
}

// each runs f for every file, several at a time.
func (m *mover) each(f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(m.b.Context())
	g.SetLimit(m.workers)
	for i := range m.names {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

func (m *mover) store(prefix string) (blobstore.Store, error) {
	return blobstore.Open(m.b.Context(), m.s.URL(prefix), nil)
}

func (m *mover) tarnUp(prefix, _ string) error {
	s, err := m.store(prefix)
	if err != nil {
		return err
	}
	defer s.Close()
	return m.each(func(ctx context.Context, i int) error {
		_, err := s.PutIfAbsent(ctx, m.names[i], blobstore.FileBody(filepath.Join(m.dir, m.names[i]), m.size, m.sums[i]))
		return err
	})
}

func (m *mover) tarnDown(prefix, dir string) error {
	s, err := m.store(prefix)
	if err != nil {
		return err
	}
	defer s.Close()
	return m.each(func(ctx context.Context, i int) error {
		r, _, err := s.Get(ctx, m.names[i])
		if err != nil {
			return err
		}
		defer r.Close()
		f, err := os.Create(filepath.Join(dir, m.names[i]))
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(f, r)
		return err
	})
}

func (m *mover) manager() *transfermanager.Client {
	return transfermanager.New(m.sdk, func(o *transfermanager.Options) {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.GetObjectType = tmtypes.GetObjectRanges
	})
}

func (m *mover) sdkUp(prefix, _ string) error {
	tm := m.manager()
	return m.each(func(ctx context.Context, i int) error {
		f, err := os.Open(filepath.Join(m.dir, m.names[i]))
		if err != nil {
			return err
		}
		defer f.Close()
		if m.size < 8<<20 { // as a program would that knows its files are small
			_, err = m.sdk.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String(servers.Bucket), Key: aws.String(prefix + "/" + m.names[i]), Body: f,
				IfNoneMatch: aws.String("*"), Metadata: map[string]string{"sha256": m.sums[i]},
			})
			return err
		}
		_, err = tm.UploadObject(ctx, &transfermanager.UploadObjectInput{
			Bucket: aws.String(servers.Bucket), Key: aws.String(prefix + "/" + m.names[i]), Body: f,
			IfNoneMatch: aws.String("*"), Metadata: map[string]string{"sha256": m.sums[i]},
		})
		return err
	})
}

func (m *mover) sdkDown(prefix, dir string) error {
	tm := m.manager()
	return m.each(func(ctx context.Context, i int) error {
		f, err := os.Create(filepath.Join(dir, m.names[i]))
		if err != nil {
			return err
		}
		defer f.Close()
		if m.size < 8<<20 {
			out, err := m.sdk.GetObject(ctx, &s3.GetObjectInput{
				Bucket: aws.String(servers.Bucket), Key: aws.String(prefix + "/" + m.names[i]),
			})
			if err != nil {
				return err
			}
			defer out.Body.Close()
			_, err = io.Copy(f, out.Body)
			return err
		}
		_, err = tm.DownloadObject(ctx, &transfermanager.DownloadObjectInput{
			Bucket: aws.String(servers.Bucket), Key: aws.String(prefix + "/" + m.names[i]), WriterAt: f,
		})
		return err
	})
}

func (m *mover) rcloneUp(prefix, _ string) error { return m.copyByRclone(m.dir, m.remote(prefix)) }

func (m *mover) rcloneDown(prefix, dir string) error { return m.copyByRclone(m.remote(prefix), dir) }

func (m *mover) remote(prefix string) string {
	return fmt.Sprintf(":s3,provider=Other,env_auth=true,region=us-east-1,endpoint='%s':%s/%s", m.s.Endpoint, servers.Bucket, prefix)
}

func (m *mover) copyByRclone(from, to string) error {
	cmd := exec.CommandContext(m.b.Context(), m.rclone, "copy", "--transfers", fmt.Sprint(m.workers), "--config", os.DevNull, from, to)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
