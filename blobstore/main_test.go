package blobstore_test

import (
	"testing"

	"github.com/tarnfs/tarn/blobstore/blobtest"
)

func TestMain(m *testing.M) { blobtest.Main(m) }
