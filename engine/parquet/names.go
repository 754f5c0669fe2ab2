package parquet

import (
	"fmt"
	"io"
)

// Names reads the names of a file's columns, whatever their types: also where
// Read gives up with ErrUnsupportedType. Its other errors are Read's.
func Names(r io.ReaderAt, size int64) (names []string, err error) {
	buf, err := readFooterBytes(r, size)
	if err != nil {
		return nil, err
	}
	defer func() { // as in Read
		if p := recover(); p != nil {
			names, err = nil, fmt.Errorf("%w: reading the footer: %v", ErrDamaged, p)
		}
	}()
	var elements []*element
	d := newDecoder(buf)
	err = d.structFields(func(fl field) error {
		if fl.id != 2 {
			return d.skip(fl)
		}
		return d.structList(fl, func(i int) error {
			if i >= maxElements {
				return fmt.Errorf("more than %d schema elements", maxElements)
			}
			e, err := d.element()
			elements = append(elements, e)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("%w: footer: %w", ErrDamaged, noEOF(err))
	}
	if len(elements) == 0 {
		return nil, fmt.Errorf("%w: its footer has no schema", ErrDamaged)
	}
	next := 0
	root, err := buildNode(elements, &next, "", 0)
	if err != nil {
		return nil, err
	}
	for _, n := range root.children {
		names = append(names, n.el.name)
	}
	return names, nil
}
