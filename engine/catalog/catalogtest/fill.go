package catalogtest

import (
	"context"
	"fmt"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// fillChunk is how many files one commit of Fill registers: memory is bounded
// by it, whatever the number of files.
const fillChunk = 5000

// Fill makes a ledger with one table of n data files in an empty store. Each
// chunk of files is one snapshot and one commit, with the counters it moves.
func Fill(ctx context.Context, w kv.Writer, n int) error {
	if _, err := catalog.Create(ctx, w, nil); err != nil {
		return err
	}
	cache, err := counters.Load(ctx, w)
	if err != nil {
		return err
	}
	r := &registrar{w: w, cache: cache}
	if err := r.commit(ctx, func(tx *counters.Txn, s int64) error {
		for range 2 { // schema main, table t
			if _, err := tx.Alloc(counters.CatalogID); err != nil {
				return err
			}
		}
		if err := enter(r, schemas, catalog.SchemaRow{SchemaUUID: "s", SchemaName: "main", Path: catalog.Ptr("main/"), PathIsRelative: true}); err != nil {
			return err
		}
		return enter(r, tables, catalog.TableRow{TableID: 1, TableUUID: "t", TableName: "t", Path: catalog.Ptr("t/"), PathIsRelative: true})
	}); err != nil {
		return err
	}
	for n > 0 {
		chunk := min(n, fillChunk)
		if err := r.register(ctx, chunk); err != nil {
			return err
		}
		n -= chunk
	}
	return nil
}

// registrar commits rows with the ids of a ledger's counters.
type registrar struct {
	w     kv.Writer
	cache *counters.Cache
	b     kv.Batch
}

// register commits files of table 1 in one snapshot.
func (r *registrar) register(ctx context.Context, files int) error {
	return r.commit(ctx, func(tx *counters.Txn, s int64) error {
		for range files {
			id, err := tx.Alloc(counters.FileID)
			if err != nil {
				return err
			}
			if err := enter(r, dataFiles, fillFile(int64(id), s)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fillFile is a data file as DuckLake registers one.
func fillFile(id, snapshot int64) catalog.DataFileRow {
	return catalog.DataFileRow{DataFileID: id, TableID: 1, BeginSnapshot: snapshot, Path: fmt.Sprintf("ducklake-019a7c1e-4f3b-7da7-ad68-%012d.parquet", id), PathIsRelative: true,
		FileFormat: "parquet", RecordCount: 10_000, FileSizeBytes: 500_000 + id, FooterSize: catalog.Ptr(int64(1234)), RowIDStart: catalog.Ptr(id * 10_000)}
}

// commit makes one snapshot of what f puts.
func (r *registrar) commit(ctx context.Context, f func(*counters.Txn, int64) error) error {
	r.b = kv.Batch{}
	tx, err := r.cache.Begin(ctx, r.w)
	if err != nil {
		return err
	}
	s, err := tx.Alloc(counters.SnapshotID)
	if err != nil {
		return err
	}
	if err := f(tx, int64(s)); err != nil {
		return err
	}
	row := catalog.SnapshotRow{SnapshotID: int64(s), SnapshotTime: "2026-01-01 00:00:00.000000+00",
		NextCatalogID: int64(tx.Peek(counters.CatalogID)), NextFileID: int64(tx.Peek(counters.FileID))}
	if err := enter(r, snapshots, row); err != nil {
		return err
	}
	if err := enter(r, snapshotChanges, catalog.SnapshotChangesRow{SnapshotID: int64(s), ChangesMade: catalog.Ptr("inserted_into_table:1")}); err != nil {
		return err
	}
	r.b.Put(keys.System(keys.SuffixBase), keys.Seal(nil, keys.TagSystem, fmt.Appendf(nil, `{"version":"v%d","snapshot":%d}`, s, s)))
	tx.Stage(&r.b)
	err = r.w.Commit(ctx, &r.b)
	tx.Done(err)
	return err
}

// enter puts a row into the batch of a registrar.
func enter[T any](r *registrar, t *catalog.Table, typed T) error {
	row := catalog.Encode(t, typed)
	key, err := t.KeyOf(nil, row)
	if err != nil {
		return err
	}
	value, err := t.EncodeRow(nil, row)
	if err != nil {
		return err
	}
	r.b.Put(key, value)
	return nil
}
