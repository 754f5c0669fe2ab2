package sqlitekv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tarnfs/tarn/engine/kv"
)

var _ kv.Verifier = (*view)(nil)

// maxFaults is how many faults of a file are told.
const maxFaults = 5

// Verify lets SQLite compare its pages with each other. A file that lost a cell
// or whose tree leads astray reads well otherwise.
func (v *view) Verify(ctx context.Context) error {
	if v.closed.Load() {
		return kv.ErrClosed
	}
	faults, err := v.faults(ctx)
	if err = v.verify(translate(err)); err != nil {
		return fmt.Errorf("verify %s: %w", v.path, err)
	}
	if len(faults) > 0 {
		return fmt.Errorf("verify %s: %w: %s", v.path, kv.ErrCorrupt, strings.Join(faults, "; "))
	}
	return nil
}

func (v *view) faults(ctx context.Context) (faults []string, err error) {
	rows, err := v.conn.QueryContext(ctx, fmt.Sprintf("PRAGMA integrity_check(%d)", maxFaults))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		if line != "ok" {
			faults = append(faults, strings.Join(strings.Fields(line), " "))
		}
	}
	return faults, rows.Err()
}

// checkSize refuses a file that ends in the middle of a page: SQLite would read
// zeros for the rest. While there is something in -wal it may be half of a
// checkpoint, which will be done again.
func checkSize(ctx context.Context, q querier, path string) error {
	if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var page int64
	if err := q.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return err
	}
	if page > 0 && info.Size()%page != 0 {
		return fmt.Errorf("%w: %d bytes are no whole number of pages of %d: its end is missing", kv.ErrCorrupt, info.Size(), page)
	}
	return nil
}
