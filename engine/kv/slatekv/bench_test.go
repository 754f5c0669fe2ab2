//go:build slatedb

package slatekv_test

import (
	"testing"

	"github.com/tarnfs/tarn/engine/kv/kvtest"
)

// BenchmarkDurableCommit is on a folder, each commit synced.
func BenchmarkDurableCommit(b *testing.B) { kvtest.BenchCommit(b, folder) }
