package sqlitekv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tarnfs/tarn/engine/kv"
)

// translate gives an SQLite error the meaning the rest of the engine asks
// for. The text stays; what is added is found with errors.Is.
func translate(err error) error {
	var se *sqlite.Error
	if err == nil || !errors.As(err, &se) {
		return err
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_ERROR:
		// Our statements are always the same: what is wrong is the file's schema.
		for _, text := range []string{"unsupported file format", "no such table", "no such column", "has no column"} {
			if strings.Contains(err.Error(), text) {
				return fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
			}
		}
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w: %w: %w", kv.ErrBusy, syscall.EBUSY, err)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", syscall.EROFS, err)
	case sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	case sqlite3.SQLITE_INTERRUPT:
		return fmt.Errorf("%w: %w", context.Canceled, err)
	case sqlite3.SQLITE_IOERR:
		switch se.Code() {
		case sqlite3.SQLITE_IOERR_SHMSIZE: // -shm could not grow
			return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
		case sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_DATA:
			return fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
		}
		return fmt.Errorf("%w: %w", syscall.EIO, err)
	}
	return err
}
