package blobstore_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

func writes(c blobstore.Call) bool { return c.Op.Writes() }

func TestPutIfAbsentConfirmed(t *testing.T) {
	mine := blobstore.BytesBody([]byte("mine"))
	noHash := mine
	noHash.SHA256 = ""
	for name, test := range map[string]struct {
		before string // content that is there already
		body   blobstore.Body
		fault  blobstore.Fault
		want   error
		object string // afterwards
	}{
		"no fault":                    {"", mine, blobstore.Fault{N: 9}, nil, "mine"},
		"answer lost":                 {"", mine, blobstore.Fault{After: true}, nil, "mine"},
		"answer lost, no hash":        {"", noHash, blobstore.Fault{After: true}, nil, "mine"},
		"conflict for our own write":  {"", mine, blobstore.Fault{After: true, Err: blobstore.ErrConflict}, nil, "mine"},
		"never happened":              {"", mine, blobstore.Fault{}, blobstore.ErrInjected, ""},
		"refused":                     {"theirs", mine, blobstore.Fault{N: 9}, blobstore.ErrExists, "theirs"},
		"lost answer of a refusal":    {"them", mine, blobstore.Fault{After: true}, blobstore.ErrExists, "them"},
		"the same, no hash":           {"them", noHash, blobstore.Fault{After: true}, blobstore.ErrExists, "them"},
		"lost refusal, another size":  {"theirs", mine, blobstore.Fault{After: true}, blobstore.ErrExists, "theirs"},
		"store gone, also to read":    {"", mine, blobstore.Fault{Onwards: true, Match: always, After: true}, blobstore.ErrInjected, "mine"},
		"equal content of a rival":    {"mine", mine, blobstore.Fault{Err: blobstore.ErrTemporary}, nil, "mine"},
		"interrupted after it landed": {"", mine, blobstore.Fault{After: true, Err: context.Canceled}, nil, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			f := blobstore.NewFaulty(blobstore.NewMem())
			if test.before != "" {
				blobtest.Create(t, f, "k", test.before)
			}
			if test.fault.Match == nil {
				test.fault.Match = writes
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if errors.Is(test.fault.Err, context.Canceled) {
				test.fault.Do = func(blobstore.Call) { cancel() }
			}
			f.Inject(test.fault)
			v, err := blobstore.PutIfAbsentConfirmed(ctx, f, "k", test.body)
			if test.want == nil && err != nil {
				t.Errorf("got %v", err)
			}
			wantIs(t, "outcome", err, test.want)
			checkObject(t, f.Inner(), "k", test.object, v, err)
		})
	}
}

func always(blobstore.Call) bool { return true }

func checkObject(t testing.TB, s blobstore.Store, key, want string, v blobstore.Version, err error) {
	t.Helper()
	if want == "" {
		_, herr := s.Head(t.Context(), key)
		wantIs(t, "head", herr, blobstore.ErrNotExist)
		return
	}
	got, info := blobtest.Read(t, s, key)
	if string(got) != want {
		t.Errorf("the object is %q, want %q", got, want)
	}
	if err == nil && v != info.Version {
		t.Errorf("version %q returned, %q is there", v, info.Version)
	}
}

func TestSwapConfirmed(t *testing.T) {
	for name, test := range map[string]struct {
		before string
		stale  bool // name a version that is gone
		fault  blobstore.Fault
		rival  string // written by somebody in the moment of the fault
		want   error
		object string
	}{
		"no fault":                             {before: "old", fault: blobstore.Fault{N: 9}, object: "mine"},
		"from nothing":                         {fault: blobstore.Fault{N: 9}, object: "mine"},
		"answer lost":                          {before: "old", fault: blobstore.Fault{After: true}, object: "mine"},
		"from nothing, answer lost":            {fault: blobstore.Fault{After: true}, object: "mine"},
		"conflict for our own write":           {before: "old", fault: blobstore.Fault{After: true, Err: blobstore.ErrConflict}, object: "mine"},
		"never happened":                       {before: "old", fault: blobstore.Fault{}, want: blobstore.ErrInjected, object: "old"},
		"from nothing, never happened":         {fault: blobstore.Fault{}, want: blobstore.ErrInjected},
		"refused although nothing had changed": {before: "old", fault: blobstore.Fault{Err: blobstore.ErrConflict}, object: "mine"},
		"refused so again and again":           {before: "old", fault: blobstore.Fault{Err: blobstore.ErrConflict, Onwards: true}, want: blobstore.ErrConflict, object: "old"},
		"beaten":                               {before: "old", stale: true, fault: blobstore.Fault{N: 9}, want: blobstore.ErrConflict, object: "old"},
		"beaten, answer lost":                  {before: "old", stale: true, fault: blobstore.Fault{After: true}, want: blobstore.ErrConflict, object: "old"},
		"applied, then moved on, answer lost":  {before: "old", fault: blobstore.Fault{After: true}, rival: "theirs", want: blobstore.ErrConflict, object: "theirs"},
		"from nothing, beaten, answer lost":    {fault: blobstore.Fault{}, rival: "theirs", want: blobstore.ErrConflict, object: "theirs"},
		"a rival's equal bytes":                {fault: blobstore.Fault{}, rival: "mine", object: "mine"},
		"store gone, also to read":             {before: "old", fault: blobstore.Fault{Onwards: true, Match: always, After: true}, want: blobstore.ErrInjected, object: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			f := blobstore.NewFaulty(blobstore.NewMem())
			var have blobstore.Version
			if test.before != "" {
				have = blobtest.Create(t, f, "k", test.before)
			}
			if test.stale {
				have += "-gone"
			}
			if test.fault.Match == nil {
				test.fault.Match = writes
			}
			if test.rival != "" {
				test.fault.Do = func(blobstore.Call) {
					info, _ := f.Inner().Head(t.Context(), "k")
					if _, err := f.Inner().PutIfMatch(t.Context(), "k", info.Version, []byte(test.rival)); err != nil {
						t.Error(err)
					}
				}
			}
			f.Inject(test.fault)
			v, err := blobstore.SwapConfirmed(t.Context(), f, "k", have, []byte("mine"))
			if test.want == nil && err != nil {
				t.Errorf("got %v", err)
			}
			wantIs(t, "outcome", err, test.want)
			checkObject(t, f.Inner(), "k", test.object, v, err)
		})
	}
}

func TestSwapConfirmedOfDeletedObject(t *testing.T) {
	f := blobstore.NewFaulty(blobstore.NewMem())
	v := blobtest.Create(t, f, "k", "x")
	if err := f.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	f.LoseNth(0)
	_, err := blobstore.SwapConfirmed(t.Context(), f, "k", v, []byte("y"))
	wantIs(t, "swap", err, blobstore.ErrConflict)
}

// What is found applied must be durable before it is called so.
func TestConfirmedSyncs(t *testing.T) {
	s := &syncCounter{Store: blobstore.NewMem()}
	f := blobstore.NewFaulty(s)
	f.LoseNth(0)
	if _, err := blobstore.PutIfAbsentConfirmed(t.Context(), f, "a", blobstore.BytesBody(nil)); err != nil {
		t.Fatal(err)
	}
	f.LoseNth(0)
	if _, err := blobstore.SwapConfirmed(t.Context(), f, "b", "", nil); err != nil {
		t.Fatal(err)
	}
	if s.synced != 2 {
		t.Errorf("%d objects synced, want 2", s.synced)
	}
	s.err = io.ErrUnexpectedEOF
	f.LoseNth(0)
	_, err := blobstore.SwapConfirmed(t.Context(), f, "c", "", nil)
	wantIs(t, "applied, but not durable", err, blobstore.ErrInjected)
}

type syncCounter struct {
	blobstore.Store
	synced int
	err    error
}

func (s *syncCounter) SyncObject(context.Context, string) error { s.synced++; return s.err }

func TestLocalSyncObject(t *testing.T) {
	l := newLocal(t)
	blobtest.Create(t, l, "a/b", "x")
	if err := l.SyncObject(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
	wantIs(t, "sync of nothing", l.SyncObject(t.Context(), "a/c"), blobstore.ErrNotExist)
}
