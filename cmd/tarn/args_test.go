package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

func TestPermute(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", ""},
		{"status", "status"},
		{"status PATH --json", "status --json -- PATH"},
		{"--json status PATH", "--json status -- PATH"},
		{"-C DIR commit PATH -m text", "-C DIR commit -m text -- PATH"},
		{"mount URL DIR --read-only --work W", "mount --read-only --work W -- URL DIR"},
		{"mount URL --links=folders DIR", "mount --links=folders -- URL DIR"},
		{"commit -m --json PATH", "commit -m --json -- PATH"},
		{"commit -- --odd-name", "commit -- --odd-name"},
		{"commit PATH -- -m", "commit -- PATH -m"},
		{"nonsense a --json", "nonsense a --json"},
		{"mount URL DIR --work", "mount --work"},
		{"status -", "status -- -"},
		{"-- status", "-- status"},
	} {
		app := newApp(newTestHost(t).host)
		got := strings.Join(permute(app, strings.Fields(tc.in)), " ")
		if got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestWantsJSON(t *testing.T) {
	for in, want := range map[string]bool{"status --json": true, "--json=true x": true, "status -- --json": false, "status": false} {
		if got := wantsJSON(strings.Fields(in)); got != want {
			t.Errorf("%q: got %v", in, got)
		}
	}
}

func TestHelperArgs(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"tarn status", "status"},
		{"/usr/bin/tarn", ""},
		{"/sbin/mount.fuse.tarn /data/x.lake /mnt/x -o rw,noauto", "mount -o rw,noauto -- /data/x.lake /mnt/x"},
		{"mount.tarn /data/x.lake /mnt/x -sn -t fuse.tarn -r", "mount -o ro -- /data/x.lake /mnt/x"},
	} {
		if got := strings.Join(helperArgs(strings.Fields(tc.in)), " "); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestMountOptionWords(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want mountOptions
	}{
		{"ro,_netdev", mountOptions{ReadOnly: true, Extra: []string{"_netdev"}}},
		{"rw,allow_other,mkdir", mountOptions{AllowOther: true, Mkdir: true}},
		{`work=/a\,b,links=folders`, mountOptions{Work: "/a,b", Links: "folders"}},
		{"log_file=/x.log,pid-file=/x.pid,,", mountOptions{LogFile: "/x.log", PIDFile: "/x.pid"}},
	} {
		var got mountOptions
		if err := got.addOptions(tc.in); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", tc.in, d)
		}
	}
}

// What the background process is told is what was asked for.
func TestMountArgsRoundTrip(t *testing.T) {
	h := newTestHost(t)
	k := h.call(t)
	want := mountOptions{
		URL: "/data/towns.lake", Point: "/mnt/to wns", Work: "/mnt/w,1", Links: "folders", AllowOther: true,
		AllowNonEmpty: true, Mkdir: true, DebugFUSE: true, Extra: []string{"context=a,b", "noatime"}, PIDFile: "/x.pid",
		Foreground: true, ReadyFD: readyFD,
	}
	app := newApp(h.host)
	var got mountOptions
	for _, c := range app.Commands {
		if c.Name == "mount" {
			c.Action = func(c *cli.Context) (err error) {
				got, err = readMountOptions(c, k)
				return err
			}
		}
	}
	if err := app.Run(append([]string{"tarn"}, permute(app, want.args(k))...)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
