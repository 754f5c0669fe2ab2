package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine/outcome"
)

func TestSanitize(t *testing.T) {
	for _, tc := range []struct {
		in, want []string
	}{
		{nil, nil},
		{[]string{"auto_unmount"}, nil},
		{[]string{"noexec,auto_unmount, dev", "fsname=other", "max_read=4096,subtype=x"}, []string{"noexec", "dev"}},
		{[]string{"defaults,_netdev,nofail,x-systemd.automount,comment=a,user,rw,ro,allow_other,default_permissions", ""}, nil},
	} {
		if d := cmp.Diff(tc.want, sanitize(tc.in)); d != "" {
			t.Errorf("%q: %s", tc.in, d)
		}
	}
}

func TestFuseOptions(t *testing.T) {
	for _, tc := range []struct {
		name      string
		o         MountOptions
		root      bool
		direct    bool
		ro        bool
		writeCaps bool
	}{
		{"root, read-only", MountOptions{ReadOnly: true}, true, true, false, false},
		{"root, writable", MountOptions{}, true, true, false, true},
		{"user, read-only", MountOptions{ReadOnly: true}, false, false, true, false},
		{"user, writable", MountOptions{}, false, false, false, true},
	} {
		o := tc.o.fuseOptions(tc.root)
		options := strings.Join(o.MountOptions.Options, ",")
		const caps = fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ATOMIC_O_TRUNC
		if o.DirectMountStrict != tc.direct || strings.Contains(options, "ro") != tc.ro || (o.ExtraCapabilities&caps == caps) != tc.writeCaps {
			t.Errorf("%s: direct %v, options %s, capabilities %#x", tc.name, o.DirectMountStrict, options, o.ExtraCapabilities)
		}
		if o.EnableLocks || o.EnableSymlinkCaching || !o.DisableXAttrs || !strings.Contains(options, "default_permissions") || *o.EntryTimeout != 0 || o.NegativeTimeout != nil {
			t.Errorf("%s: %+v", tc.name, o)
		}
	}
}

func TestAllowOther(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "fuse.conf")
	defer func(old string) { fuseConf = old }(fuseConf)
	fuseConf = conf
	for text, want := range map[string]outcome.Outcome{
		"":                                outcome.Permission,
		"# user_allow_other\n":            outcome.Permission,
		"mount_max = 9\nuser_allow_other": outcome.Done,
	} {
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := checkAllowOther(false); outcome.Of(err) != want {
			t.Errorf("%q: %v", text, err)
		}
		if err := checkAllowOther(true); err != nil {
			t.Errorf("root, %q: %v", text, err)
		}
	}
	os.Remove(conf)
	if err := checkAllowOther(false); outcome.Of(err) != outcome.Permission {
		t.Errorf("no file: %v", err)
	}
}

const sampleTable = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:45 / /mnt/my\040towns ro,nosuid shared:9 master:1 - fuse.tarn /data/towns.lake ro,user_id=0
41 40 0:46 / /mnt/my\040towns/work rw,nosuid - fuse.tarn /data/towns.lake rw,user_id=0
42 22 0:47 / /home/w rw - fuse.tarn /data/towns.lake#/mnt/my\040towns rw
43 41 0:48 / /mnt/my\040towns/work/main/x rw - tmpfs none rw
44 22 0:49 / /mnt/my\040townsfolk rw - fuse.tarn other rw
not a line
`

func TestMountTable(t *testing.T) {
	table, err := ParseTable(strings.NewReader(sampleTable))
	if err != nil || len(table) != 6 {
		t.Fatalf("%d entries, %v", len(table), err)
	}
	top, ok := topAt(table, "/mnt/my towns")
	if !ok || !top.Ours() || top.Source != "/data/towns.lake" || top.ID != 40 {
		t.Errorf("top: %+v", top)
	}
	points, inner := belonging(table, top)
	if d := cmp.Diff([]string{"/home/w", "/mnt/my towns/work", "/mnt/my towns"}, points); d != "" || inner != "/mnt/my towns/work/main/x" {
		t.Errorf("belonging: %s, inner %q", d, inner)
	}
	for dir, want := range map[string]int{"/": 22, "/mnt": 22, "/mnt/my towns/branches": 40, "/mnt/my towns/work/a": 41, "/mnt/my townsfolk": 44, "/mnt/my towns2": 22} {
		if e, ok := Holding(table, dir); !ok || e.ID != want {
			t.Errorf("%s lies in %d, want %d", dir, e.ID, want)
		}
	}
	for in, want := range map[string]string{`a\040b`: "a b", `\134`: `\`, `\9`: `\9`, `\011\012`: "\t\n", `end\04`: `end\04`} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestRealOf(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{"l/not/there": "not/there", "l": "", "x/../y": "y"} {
		if got := realOf(filepath.Join(dir, in)); got != filepath.Join(dir, want) {
			t.Errorf("%s: got %s", in, got)
		}
	}
}
