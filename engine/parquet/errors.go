package parquet

import "errors"

// What can be wrong with a file. Each returned error wraps one of them and
// says in words where and what.
var (
	// ErrNotParquet: the bytes are not a Parquet file at all.
	ErrNotParquet = errors.New("parquet: not a Parquet file")
	// ErrDamaged: a Parquet file whose footer contradicts itself or the file.
	ErrDamaged = errors.New("parquet: damaged file")
	// ErrEncrypted: footer or columns are encrypted.
	ErrEncrypted = errors.New("parquet: encrypted file")
	// ErrUnsupportedType: a column that a DuckLake table cannot hold as it is.
	ErrUnsupportedType = errors.New("parquet: unsupported column type")
	// ErrTooBig: a file is larger than the size it was to be padded to.
	ErrTooBig = errors.New("parquet: file is larger than announced")
)
