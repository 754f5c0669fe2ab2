package work

import (
	"os"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Internal: no test can mount an NFS, so the decision is tested on numbers.
func TestRefuseRemote(t *testing.T) {
	tests := []struct {
		magic uint32
		name  string // "": allowed
	}{
		{0x6969, "NFS"}, {0x65735546, "FUSE"}, {0xff534d42, "CIFS"}, {0x01021997, "9P"},
		{0xef53, ""} /* ext4 */, {0x58465342, ""} /* xfs */, {0x9123683e, ""} /* btrfs */, {0x01021994, ""} /* tmpfs */, {0x794c7630, ""}, /* overlay */
	}
	for _, tt := range tests {
		err := refuseRemote("/s", tt.magic)
		if (err != nil) != (tt.name != "") {
			t.Errorf("%#x: %v", tt.magic, err)
		}
		if err != nil && (outcome.Of(err) != outcome.Refused || !strings.Contains(err.Error(), tt.name) || outcome.Next(err) == "") {
			t.Errorf("%#x: %v", tt.magic, err)
		}
	}
}

func TestDiskName(t *testing.T) {
	for _, s := range []string{"", "towns.csv", "100%.csv", "%41", "a\xffb", "ä\xc3", "\n\"", "�"} {
		text, err := diskName(s).MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back diskName
		if err := back.UnmarshalText(text); err != nil || string(back) != s {
			t.Errorf("%q -> %s -> %q, %v", s, text, back, err)
		}
	}
	for _, bad := range []string{"%", "%4", "%zz"} {
		if err := new(diskName).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// The texts on disk are a format: these are the bytes of version 1.
func TestFormats(t *testing.T) {
	k := fileKey{id: 7, path: "data/main/t/a:b.parquet"}
	if got, want := k.link(), "base:7:data/main/t/a:b.parquet"; got != want {
		t.Errorf("link %q, want %q", got, want)
	}
	if back, ok := parseLink(k.link()); !ok || back != k {
		t.Errorf("read back %+v", back)
	}
	for _, bad := range []string{"", "x", "base:", "base:1", "base:x:y", "/etc/passwd"} {
		if _, ok := parseLink(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
	e, ok := parseTrashName("000012_20261012T140305Z_generation_g3_reset-last")
	if !ok || e.Seq != 12 || e.Gen != 3 || e.Kind != KindGeneration || e.Why != "reset-last" || e.Time.Unix() != 1791813785 {
		t.Errorf("trash name: %+v %v", e, ok)
	}

	// a manifest, as version 1 wrote it
	dir := t.TempDir()
	p := pendingArea{dir: dir}
	text := `{"format":1,"take":"0199f2d5-0000-7000-8000-000000000001","files":[{"stage":"0199f2d5-0000-7000-8000-000000000002","path":"main/t/a%FF.csv","from":"schemas/main/tables/t/files/a%FF.csv","mode":416}],"marks":[{"at":"schemas/main/dropped/u"},{"at":"schemas/main/tables/t/removed/b.csv","was":"base:7:data/x"}]}`
	if err := os.WriteFile(dir+"/"+manifestName, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := p.read(manifestName)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Files) != 1 || m.Files[0].From != "schemas/main/tables/t/files/a\xff.csv" || m.Files[0].Mode != 0o640 || len(m.Marks) != 2 || m.Marks[1].Was != "base:7:data/x" {
		t.Errorf("manifest: %+v", m)
	}
	for _, bad := range []string{`{`, `{"format":2}`, strings.Replace(text, "schemas/main/dropped/u", "../../u", 1), strings.Replace(text, "schemas/main/tables/t/files", "/etc", 1),
		strings.Replace(text, "0199f2d5-0000-7000-8000-000000000002", "../x", 1)} {
		if err := os.WriteFile(dir+"/"+manifestName, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.read(manifestName); err == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
}

func TestJunk(t *testing.T) {
	junk := []string{".hidden", ".~lock.a.csv#", "a.csv~", "~$book.xlsx", "#a.csv#", "_SUCCESS", "_temporary", "_started_123", "_committed_123",
		"part-0.parquet.crc", "x.tmp", "x.csv.part", "tmp_o.parquet", ".a.csv.swp", "a.swp", ".DS_Store", "Thumbs.db", "THUMBS.DB", "desktop.ini",
		"lake.sqlite-journal", "lake.sqlite-wal", "lake.sqlite-shm", "_metadata", "_common_metadata", "4913", "x.crdownload", ".a.csv.Xy12Zz"}
	for _, n := range junk {
		if why, ok := JunkFile(n); !ok || why == "" {
			t.Errorf("%q counts as data", n)
		}
	}
	for _, n := range []string{"a.csv", "tmp.csv", "temporary.parquet", "crc.csv", "a~b.csv", "#a.csv", "_x.csv", "x.partial.csv", "wal", "success", "49130", "~a.csv"} {
		if why, ok := JunkFile(n); ok {
			t.Errorf("%q is junk: %s", n, why)
		}
	}
	for _, n := range []string{".git", "_temporary", "__MACOSX", "lost+found", "$RECYCLE.BIN"} {
		if _, ok := JunkDir(n); !ok {
			t.Errorf("folder %q counts as a table", n)
		}
	}
	for _, n := range []string{"tmp_sales", "orders~", "year=2024", "a.tmp"} {
		if why, ok := JunkDir(n); ok {
			t.Errorf("folder %q is junk: %s", n, why)
		}
	}
	for i, r := range junkRules {
		if r.why == "" || !r.files && !r.dirs {
			t.Errorf("rule %d: %+v", i, r)
		}
	}
	for name, want := range map[string]string{"a.csv": "a", "a.b.csv": "a.b", "a": "a", ".x": ".x", "a.csv.gz": "a.csv", "a.": "a"} {
		if got := Stem(name); got != want {
			t.Errorf("stem of %q: %q, want %q", name, got, want)
		}
	}
}
