package main

import (
	"path/filepath"
	"strings"
)

// helperArgs is the command line without the program's name. Called under the
// name of a mount helper, by mount(8) for a line in fstab
//
//	/data/towns.lake /mnt/towns fuse.tarn ro,_netdev,nofail 0 0
//
// it is `mount.fuse.tarn SOURCE DIR [-sfnv] [-t TYPE] [-o OPTIONS]`, and
// becomes `tarn mount`.
func helperArgs(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if name := filepath.Base(args[0]); name != "mount.tarn" && name != "mount.fuse.tarn" {
		return args[1:]
	}
	out, words := []string{"mount"}, []string(nil)
	rest := args[1:]
	for i := 0; i < len(rest); i++ {
		switch a := rest[i]; {
		case a == "-o" && i+1 < len(rest):
			i++
			out = append(out, "-o", rest[i])
		case (a == "-t" || a == "-N") && i+1 < len(rest):
			i++
		case len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "sfnvrw") == "":
			if strings.Contains(a, "r") {
				out = append(out, "-o", "ro")
			}
		default:
			words = append(words, a)
		}
	}
	return append(append(out, "--"), words...)
}
