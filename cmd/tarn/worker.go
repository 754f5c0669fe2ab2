package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/lake/worker"
)

// workerCommand is the child process that runs DuckDB and opens clients'
// catalogs; see package worker. It speaks over its standard streams with the
// process that started it, and is of no use to a person.
func workerCommand(*host) *cli.Command {
	return &cli.Command{
		Name:            "worker",
		Usage:           "serve requests for DuckDB on the standard streams",
		Hidden:          true,
		SkipFlagParsing: true,
		Action: func(*cli.Context) error {
			// A request may still be running: the process must end at once.
			os.Exit(worker.Main(os.Stdin, os.Stdout))
			return nil
		},
	}
}
