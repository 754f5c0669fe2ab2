package catalog

import "reflect"

// CheckStruct checks that a struct has exactly the columns of t.
func CheckStruct(t *Table, typ reflect.Type) error {
	_, err := makePlan(t, typ)
	return err
}

// RoundTyped maps a row to its struct and back.
func RoundTyped(t *Table, typ reflect.Type, row Row) (Row, error) {
	v := reflect.New(typ).Elem()
	if err := decodeInto(t, v, row); err != nil {
		return nil, err
	}
	return encodeValue(t, v), nil
}
