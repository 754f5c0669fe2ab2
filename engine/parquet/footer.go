package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
	tailSize       = 8 // little-endian footer length, magic
	minFileSize    = 12
	maxFooter      = 256 << 20 // more is no table, and would be held in memory whole
	maxElements    = 1 << 18   // schema elements; a footer with more would need gigabytes as a tree
)

// Footer is what a Parquet file says about itself.
type Footer struct {
	Rows       int64  // of the whole file
	FooterSize int64  // bytes of the thrift footer, as DuckLake's footer_size wants it
	Bytes      int64  // of the whole file
	CreatedBy  string // writer's own words, may be empty
	Codec      string // of the first column chunk, lower case (snappy, zstd, uncompressed, ...); "" without one
	Columns    []*Column
	Leaves     []LeafStats // one a leaf of Columns, depth first
}

// Column is one column or, below another, one field, element, key or value.
// A list has one child named element, a map two named key and value, whatever
// the file calls them.
type Column struct {
	Name     string
	Type     string // DuckLake's name: int64, varchar, decimal(9,2), struct, list, map
	FieldID  *int32 // nil when the file gives none
	Nullable bool   // values may be NULL
	Untyped  bool   // the file says only that every value is NULL; Type is the type of its physical form
	Legacy   bool   // a list in an old form, without the two inner levels of today
	Millis   bool   // a TIMESTAMP kept in milliseconds
	Children []*Column
}

// LeafStats are the statistics of one leaf column over all row groups, in
// DuckLake's words (file_column_stats). Nil: the file does not say, or what it
// says cannot be trusted.
type LeafStats struct {
	Column     *Column
	SizeBytes  int64 // compressed
	ValueCount *int64
	NullCount  *int64
	Min, Max   *string // both or none; exact
}

// Read reads the footer of the Parquet file of size bytes behind r. It reads
// nothing but the first four bytes and the footer. Errors wrap ErrNotParquet,
// ErrDamaged, ErrEncrypted or ErrUnsupportedType, or are r's own.
func Read(r io.ReaderAt, size int64) (f *Footer, err error) {
	buf, err := readFooterBytes(r, size)
	if err != nil {
		return nil, err
	}
	// The code below bounds what it reads, but it rests on a library's reader:
	// a panic there is a damaged file, not a crash.
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("%w: reading the footer: %v", ErrDamaged, p)
		}
	}()
	return decodeFooter(buf, size)
}

// readFooterBytes checks both ends of the file and returns the thrift footer.
func readFooterBytes(r io.ReaderAt, size int64) ([]byte, error) {
	if size < minFileSize {
		return nil, fmt.Errorf("%w: it has %d bytes, the smallest possible has %d", ErrNotParquet, size, minFileSize)
	}
	var head [len(magic)]byte
	if err := readFull(r, head[:], 0); err != nil {
		return nil, err
	}
	var tail [tailSize]byte
	if err := readFull(r, tail[:], size-tailSize); err != nil {
		return nil, err
	}
	end := string(tail[4:])
	switch {
	case string(head[:]) == magicEncrypted || end == magicEncrypted:
		return nil, fmt.Errorf("%w: its footer is encrypted", ErrEncrypted)
	case string(head[:]) != magic:
		return nil, fmt.Errorf("%w: it does not begin with PAR1", ErrNotParquet)
	case end != magic:
		return nil, fmt.Errorf("%w: it begins with PAR1 but does not end with it (cut short?)", ErrNotParquet)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:4]))
	switch {
	case length == 0:
		return nil, fmt.Errorf("%w: its footer is empty", ErrDamaged)
	case length > size-minFileSize:
		return nil, fmt.Errorf("%w: its footer would have %d bytes, the file has %d", ErrDamaged, length, size)
	case length > maxFooter:
		return nil, fmt.Errorf("%w: its footer has %d bytes, more than %d", ErrDamaged, length, maxFooter)
	}
	buf := make([]byte, length)
	if err := readFull(r, buf, size-tailSize-length); err != nil {
		return nil, err
	}
	return buf, nil
}

// readFull reads len(b) bytes at off; a file that ends early is damaged.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it ends before byte %d", ErrDamaged, off+int64(len(b)))
	}
	return err
}

// decodeFooter reads FileMetaData. Row groups are folded into the leaves as
// they come, so a footer never grows in memory.
func decodeFooter(buf []byte, size int64) (*Footer, error) {
	f := &Footer{Bytes: size, FooterSize: int64(len(buf)), Rows: -1}
	var (
		d        = newDecoder(buf)
		elements []*element
		tree     *tree
		groups   int64 // rows over all row groups
		ours     error // an error that already says what it is
	)
	dataEnd := size - tailSize - int64(len(buf))
	err := d.structFields(func(fl field) (err error) {
		switch fl.id {
		case 2:
			err = d.structList(fl, func(i int) error {
				if i >= maxElements {
					return fmt.Errorf("more than %d schema elements", maxElements)
				}
				e, err := d.element()
				elements = append(elements, e)
				return err
			})
			if err == nil {
				tree, ours = newTree(elements)
				err = ours
			}
		case 3:
			f.Rows, err = d.i64(fl)
		case 4:
			if tree == nil {
				return errors.New("row groups before the schema")
			}
			err = d.structList(fl, func(int) error {
				n, err := d.rowGroup(f, tree, dataEnd, &ours)
				groups += n
				return err
			})
		case 6:
			var b []byte
			b, err = d.bytes(fl)
			f.CreatedBy = strings.ToValidUTF8(string(b), "?")
		case 7:
			err = d.structList(fl, func(i int) error {
				if tree == nil {
					return errors.New("column orders before the schema")
				}
				return d.columnOrder(tree, i)
			})
		case 8:
			ours = fmt.Errorf("%w: its columns are encrypted", ErrEncrypted)
			err = ours
		default:
			err = d.skip(fl)
		}
		return err
	})
	switch {
	case ours != nil:
		return nil, ours
	case err != nil:
		return nil, fmt.Errorf("%w: footer: %w", ErrDamaged, noEOF(err))
	case tree == nil:
		return nil, fmt.Errorf("%w: its footer has no schema", ErrDamaged)
	case f.Rows < 0:
		return nil, fmt.Errorf("%w: its footer has no row count", ErrDamaged)
	case groups != f.Rows:
		return nil, fmt.Errorf("%w: its row groups have %d rows, its footer says %d", ErrDamaged, groups, f.Rows)
	}
	f.Columns = tree.columns
	f.Leaves = make([]LeafStats, 0, len(tree.leaves))
	for _, l := range tree.leaves {
		if l.hidden {
			continue
		}
		f.Leaves = append(f.Leaves, l.result(f.CreatedBy))
	}
	return f, nil
}

// rowGroup folds one row group into the leaves and returns its rows.
func (d *decoder) rowGroup(f *Footer, t *tree, dataEnd int64, ours *error) (rows int64, err error) {
	columns := 0
	err = d.structFields(func(fl field) (err error) {
		switch fl.id {
		case 1:
			err = d.structList(fl, func(i int) error {
				if i >= len(t.leaves) {
					return fmt.Errorf("a row group has more than the schema's %d columns", len(t.leaves))
				}
				columns++
				c, err := d.chunk()
				if err != nil {
					return err
				}
				if f.Codec == "" {
					f.Codec = strings.ToLower(c.codec.String())
				}
				if *ours = c.check(t.leaves[i], dataEnd); *ours != nil {
					return *ours
				}
				t.leaves[i].add(c)
				return nil
			})
		case 3:
			rows, err = d.i64(fl)
			if err == nil && rows < 0 {
				err = fmt.Errorf("a row group of %d rows", rows)
			}
		default:
			err = d.skip(fl)
		}
		return err
	})
	if err == nil && columns != len(t.leaves) {
		err = fmt.Errorf("a row group has %d columns, the schema %d", columns, len(t.leaves))
	}
	return rows, err
}

// columnOrder notes a leaf whose bounds follow an order we do not know.
func (d *decoder) columnOrder(t *tree, i int) error {
	const typeDefined = 1
	known := false
	err := d.structFields(func(f field) error {
		known = f.id == typeDefined
		return d.skip(f)
	})
	if !known && i < len(t.leaves) {
		t.leaves[i].noBounds = true
	}
	return err
}

// noEOF keeps "EOF" out of messages: inside a footer it means "cut short".
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends in the middle of a value")
	}
	return err
}
