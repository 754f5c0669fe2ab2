package blobstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mem is a store in memory, for tests and for trying things out. It keeps all
// of the promises but durability. The zero value is not usable: see NewMem.
type Mem struct {
	name string

	mu      sync.RWMutex // guards what follows
	objects map[string]memObject
	last    uint64 // versions handed out: they never repeat, so A-B-A shows
}

type memObject struct {
	data    []byte // never changed
	sha     string
	version Version
	mod     time.Time
}

var _ Store = (*Mem)(nil)

// NewMem makes an empty store that nobody else sees.
func NewMem() *Mem { return &Mem{objects: map[string]memObject{}} }

// shared holds the stores that were opened by name, for as long as the process
// lives: closing one and opening it again finds the same objects.
var shared = struct {
	mu     sync.Mutex // guards byName
	byName map[string]*Mem
}{byName: map[string]*Mem{}}

// sharedMem is the store of that name; without a name, a new one.
func sharedMem(name string) *Mem {
	if name == "" {
		return NewMem()
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	m, ok := shared.byName[name]
	if !ok {
		m = NewMem()
		m.name = name
		shared.byName[name] = m
	}
	return m
}

// URL is mem: and the name.
func (m *Mem) URL() string { return "mem:" + m.name }

// Close does nothing: others may have the same store open.
func (m *Mem) Close() error { return nil }

func (m *Mem) find(ctx context.Context, key string) (memObject, error) {
	if err := ValidKey(key); err != nil {
		return memObject{}, err
	}
	if err := ctx.Err(); err != nil {
		return memObject{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[key]
	if !ok {
		return memObject{}, ErrNotExist
	}
	return o, nil
}

func (o memObject) info(key string) Info {
	return Info{Key: key, Size: int64(len(o.data)), ModTime: o.mod, Version: o.version, SHA256: o.sha}
}

// Get opens the whole object.
func (m *Mem) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	o, err := m.find(ctx, key)
	if err != nil {
		return nil, Info{}, fmt.Errorf("read %s: %w", key, err)
	}
	return io.NopCloser(bytes.NewReader(o.data)), o.info(key), nil
}

// GetRange reads n bytes from off.
func (m *Mem) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	o, err := m.find(ctx, key)
	if err == nil && off < 0 {
		err = fmt.Errorf("%w: negative offset", os.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", key, off, err)
	}
	rest := o.data[min(off, int64(len(o.data))):]
	if n >= 0 && n < int64(len(rest)) {
		rest = rest[:n]
	}
	return io.NopCloser(bytes.NewReader(rest)), nil
}

// Head describes the object.
func (m *Mem) Head(ctx context.Context, key string) (Info, error) {
	o, err := m.find(ctx, key)
	if err != nil {
		return Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	return o.info(key), nil
}

// PutIfAbsent creates the object.
func (m *Mem) PutIfAbsent(ctx context.Context, key string, b Body) (Version, error) {
	v, err := m.create(ctx, key, b)
	if err != nil {
		return "", fmt.Errorf("create %s: %w", key, err)
	}
	return v, nil
}

func (m *Mem) create(ctx context.Context, key string, b Body) (Version, error) {
	if err := ValidKey(key); err != nil {
		return "", err
	}
	var data bytes.Buffer
	if err := b.copyTo(ctx, &data); err != nil { // not under the mutex: it may block
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.objects[key]
	switch {
	case ok && bytes.Equal(old.data, data.Bytes()):
		old.mod = time.Now()
		m.objects[key] = old
		return old.version, nil
	case ok:
		return "", ErrExists
	}
	return m.storeLocked(key, data.Bytes(), b.SHA256), nil
}

// PutIfMatch replaces the object if its version is have.
func (m *Mem) PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	err := ValidKey(key)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("swap %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[key].version != have {
		return "", fmt.Errorf("swap %s: %w", key, ErrConflict)
	}
	return m.storeLocked(key, bytes.Clone(data), hashBytes(data)), nil
}

func (m *Mem) storeLocked(key string, data []byte, sha string) Version {
	m.last++
	v := Version(fmt.Sprintf("mem-%d", m.last))
	m.objects[key] = memObject{data: data, sha: sha, version: v, mod: time.Now()}
	return v
}

// Delete removes the object.
func (m *Mem) Delete(ctx context.Context, key string) error {
	err := ValidKey(key)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// List yields the objects of the moment when the iteration began.
func (m *Mem) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		m.mu.RLock()
		found := maps.Clone(m.objects)
		m.mu.RUnlock()
		for _, key := range slices.Sorted(maps.Keys(found)) {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(Info{Key: key}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			if !yield(found[key].info(key), nil) {
				return
			}
		}
	}
}
