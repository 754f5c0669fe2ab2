// Command tarn mounts a repository of versioned tables as folders, and does
// without a mount what its control files do with one.
//
// It must not know how anything is done: it reads the command line, calls the
// engine or the daemon of a mount, and prints what came of it.
package main

import (
	"context"
	"os"
)

func main() {
	ctx, stops := watchSignals(context.Background())
	code := run(ctx, processHost(stops), os.Args)
	stops.end()
	os.Exit(code)
}
