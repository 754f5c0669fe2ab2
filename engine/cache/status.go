package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Usage is what a cache folder holds.
type Usage struct {
	Dir    string `json:"dir"`
	Limit  int64  `json:"limit"` // bytes; negative: nothing is kept
	Bytes  int64  `json:"bytes"` // of all that is kept or being written
	Free   int64  `json:"free"`  // bytes of the disk that may still be used
	Blocks int    `json:"blocks"`
	Files  int    `json:"files"`
	Locked int    `json:"in_use"` // whole files in use; after Clear: those that stayed
}

// Usage looks at the folder. What dead processes have left in it is removed.
func (c *Cache) Usage() (Usage, error) { return c.look(false) }

// Clear removes everything that is not in use, and says what is left.
func (c *Cache) Clear() (Usage, error) { return c.look(true) }

func (c *Cache) look(clear bool) (Usage, error) {
	u := Usage{Dir: c.disk.dir, Limit: c.disk.limit}
	if _, err := os.Stat(c.disk.dir); errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	err := c.disk.locked(func(l *os.File) error {
		list, total, err := c.disk.scan()
		if err != nil {
			return err
		}
		for _, e := range list {
			if clear && c.disk.drop(e) {
				total -= e.size
				continue
			}
			switch {
			case e.whole:
				u.Files++
			case filepath.Ext(e.path) != sumsSuffix:
				u.Blocks++
			}
			if clear && e.whole {
				u.Locked++
			}
		}
		u.Bytes = total
		if u.Free, err = c.disk.free(); err != nil {
			return err
		}
		return writeTotal(l, total)
	})
	return u, err
}
