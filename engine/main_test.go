package engine_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/lake/worker"
)

// TestMain lets the test binary be its own worker process, and the process that a test lets die.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(worker.Main(enginetest.WorkerPipes(os.Stdin, os.Stdout)))
	}
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	if arg := os.Getenv(rivalEnv); arg != "" {
		var r rival
		if err := json.Unmarshal([]byte(arg), &r); err != nil {
			panic(err)
		}
		os.Exit(r.run())
	}
	if arg := os.Getenv(farEnv); arg != "" {
		var j farJob
		if err := json.Unmarshal([]byte(arg), &j); err != nil {
			panic(err)
		}
		os.Exit(j.run())
	}
	os.Exit(m.Run())
}
