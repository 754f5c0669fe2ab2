package forgetful

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// script does file operations on a disk, one a line:
//
//	mkdir P · write P TEXT (made when missing) · sync P · mv P Q · swap P Q · ln P Q · rm P
type script struct {
	t testing.TB
	d *disk
}

func (s script) at(p string) (dir *inode, name string) {
	s.t.Helper()
	dir = s.d.root
	parts := strings.Split(p, "/")
	for _, part := range parts[:len(parts)-1] {
		if dir = dir.now.names[part]; dir == nil {
			s.t.Fatalf("no %s in %s", part, p)
		}
	}
	return dir, parts[len(parts)-1]
}

func (s script) run(lines string) {
	s.t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "; ") {
		w := strings.Fields(line)
		dir, name := s.at(w[1])
		switch w[0] {
		case "mkdir":
			s.d.link(dir, name, s.d.newInode(unix.S_IFDIR|0o755, 0, 0))
		case "write":
			if dir.now.names[name] == nil {
				s.d.link(dir, name, s.d.newInode(unix.S_IFREG|0o644, 0, 0))
			}
			dir.now.names[name].now.data = []byte(w[2])
		case "sync":
			if name == "." {
				s.d.sync(dir)
			} else {
				s.d.sync(dir.now.names[name])
			}
		case "rm":
			s.d.unlink(dir, name)
		default:
			to, is := s.at(w[2])
			switch w[0] {
			case "mv":
				s.d.rename(dir, name, to, is)
			case "swap":
				s.d.exchange(dir, name, to, is)
			case "ln":
				s.d.link(to, is, dir.now.names[name])
			default:
				s.t.Fatalf("no operation %q", w[0])
			}
		}
	}
}

// list is a disk in words: names in order, files with their bytes.
func list(d *disk) string {
	var out []string
	var walk func(p string, in *inode)
	walk = func(p string, in *inode) {
		for _, name := range slices.Sorted(maps.Keys(in.now.names)) {
			child := in.now.names[name]
			if at := path.Join(p, name); child.now.isDir() {
				out = append(out, at+"/")
				walk(at, child)
			} else {
				out = append(out, at+"="+string(child.now.data))
			}
		}
	}
	walk("", d.root)
	return strings.Join(out, " ")
}

func TestForgets(t *testing.T) {
	for _, tc := range []struct{ name, ops, all, bytes string }{
		{"nothing synced", "mkdir d; write d/f 1", "", "d/ d/f="},
		{"file without its name", "write f 1; sync f", "", "f=1"},
		{"name without its bytes", "write f 1; sync .", "f=", "f="},
		{"both", "write f 1; sync f; sync .", "f=1", "f=1"},
		{"overwritten", "write f 1; sync f; sync .; write f 2", "f=1", "f=1"},
		{"folder of the name only", "mkdir d; write d/f 1; sync d/f; sync d", "", "d/ d/f=1"},
		{"up to the root", "mkdir d; write d/f 1; sync d/f; sync d; sync .", "d/ d/f=1", "d/ d/f=1"},
		{"removed", "write f 1; sync f; sync .; rm f", "f=1", ""},
		{"removal synced", "write f 1; sync f; sync .; rm f; sync .", "", ""},
		{"replaced", "write a 1; write b 2; sync a; sync b; sync .; mv a b", "a=1 b=2", "b=1"},
		{"replacement synced", "write a 1; write b 2; sync a; sync b; sync .; mv a b; sync .", "b=1", "b=1"},
		{"replaced by bytes not synced", "write a 1; write b 2; sync b; sync .; mv a b; sync .", "b=", "b="},
		{"second name", "write a 1; sync a; sync .; ln a b", "a=1", "a=1 b=1"},
		{"second name synced", "write a 1; sync a; sync .; ln a b; sync .", "a=1 b=1", "a=1 b=1"},
		{"moved", "mkdir d; write f 1; sync f; sync .; mv f d/g", "d/ f=1", "d/ d/g=1"},
		{"moved, old folder synced", "mkdir d; write f 1; sync f; sync .; mv f d/g; sync .", "d/ f=1", "d/ d/g=1"},
		{"moved, new folder synced", "mkdir d; write f 1; sync f; sync .; mv f d/g; sync d", "d/ d/g=1", "d/ d/g=1"},
		{"moved, old name taken", "mkdir d; write f 1; sync f; sync .; mv f d/g; write f 2; sync f; sync .", "d/ d/g=1 f=2", "d/ d/g=1 f=2"},
		{"moved twice", "mkdir d; mkdir e; write f 1; sync f; sync .; mv f d/g; mv d/g e/h; sync e", "d/ e/ e/h=1", "d/ e/ e/h=1"},
		{"moved there and back", "mkdir d; write f 1; sync f; sync .; mv f d/g; mv d/g f; sync .; sync d", "d/ f=1", "d/ f=1"},
		{"moved and removed", "mkdir d; write f 1; sync f; sync .; mv f d/g; rm d/g; sync .", "d/", "d/"},
		{"folder moved", "mkdir a; mkdir b; mkdir a/x; write a/x/f 1; sync a/x/f; sync a/x; sync a; sync .; mv a/x b/y; sync b", "a/ b/ b/y/ b/y/f=1", "a/ b/ b/y/ b/y/f=1"},
		{"swapped", "mkdir d; write f 1; write d/g 2; sync f; sync d/g; sync d; sync .; swap f d/g", "d/ d/g=2 f=1", "d/ d/g=1 f=2"},
		{"swapped, one folder synced", "mkdir d; write f 1; write d/g 2; sync f; sync d/g; sync d; sync .; swap f d/g; sync d", "d/ d/g=1 f=2", "d/ d/g=1 f=2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := script{t, newDisk()}
			s.run(tc.ops)
			for lose, want := range map[Lose]string{LoseAll: tc.all, LoseBytes: tc.bytes} {
				left := s.d.survivors(lose)
				if diff := cmp.Diff(want, list(left)); diff != "" {
					t.Errorf("lose %s (-want +got):\n%s", lose, diff)
				}
				dir := t.TempDir()
				if err := left.save(dir); err != nil {
					t.Fatal(err)
				}
				again, err := load(dir)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, list(again)); diff != "" {
					t.Errorf("saved and loaded (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestSyncAll(t *testing.T) {
	s := script{t, newDisk()}
	s.run("mkdir d; write f 1; sync f; sync .; mv f d/g; write d/h 2; ln d/h k")
	s.d.syncAll()
	if got, want := list(s.d.survivors(LoseAll)), "d/ d/g=1 d/h=2 k=2"; got != want {
		t.Errorf("after sync: %q, want %q", got, want)
	}
}
