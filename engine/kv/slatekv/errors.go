//go:build slatedb

package slatekv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/kv"
)

// code is what a call into C answers. The numbers are those of slatedb_c.h.
type code int32

const (
	codeOK          code = 0
	codeNotExist    code = 1
	codeFenced      code = 2
	codeConflict    code = 3
	codeUnavailable code = 4
	codeDamaged     code = 5
	codeClosed      code = 6
	codeInvalid     code = 7
	codeInternal    code = 8
	codeCancelled   code = 9
	codeUnknown     code = 10
	codeVanished    code = 11
	codeUnsafe      code = 12
)

// errBadOption: an option, a setting or a part of the URL is not valid. Turned
// into a usage error where the store is opened.
var errBadOption = errors.New("slatekv: invalid option")

// failure gives the answer of a call the meaning the rest of the engine asks
// for. text is the library's, one line.
func failure(ctx context.Context, c code, errno int, text string) error {
	switch c {
	case codeOK:
		return nil
	case codeNotExist:
		err := fmt.Errorf("%w: %w", kv.ErrNotExist, fs.ErrNotExist)
		if text != "" { // not even a bucket
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	case codeFenced:
		return kv.ErrFenced
	case codeConflict:
		return fmt.Errorf("%w: %s", kv.ErrConflict, text)
	case codeUnavailable:
		return fmt.Errorf("%w: %s", system(errno), text)
	case codeDamaged:
		return fmt.Errorf("%w: %s", kv.ErrCorrupt, text)
	case codeClosed:
		return kv.ErrClosed
	case codeInvalid:
		return fmt.Errorf("%w: %s", errBadOption, text)
	case codeCancelled:
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return context.Canceled
	case codeUnknown:
		return fmt.Errorf("%w: %w: %s", kv.ErrUnknown, system(errno), text)
	case codeUnsafe:
		return fmt.Errorf("%w: %s", blobstore.ErrUnsafe, text)
	case codeVanished:
		return fmt.Errorf("%w: %s", kv.ErrChanged, text)
	}
	return fmt.Errorf("slatekv: %s", text)
}

// system is the operating system's error where it says something about the
// store itself; everything else that kept us from it is a store out of reach.
func system(errno int) error {
	switch e := syscall.Errno(errno); e {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EIO,
		syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP:
		return e
	}
	return syscall.ETIMEDOUT
}
