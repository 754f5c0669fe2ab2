package catalog

import (
	"errors"
	"fmt"

	"github.com/tarnfs/tarn/engine/outcome"
)

var (
	// ErrInvariant: rows that no DuckLake catalog may hold, such as two with one key.
	ErrInvariant = errors.New("catalog: broken invariant")
	// ErrFormat: the store was written by a newer program, or by another one.
	ErrFormat = errors.New("catalog: unknown format of the catalog store")
	// ErrNewer is ErrFormat of a program that came after this one.
	ErrNewer = fmt.Errorf("%w: newer", ErrFormat)
	// ErrPlanChanged: the store changed between the plan of a repair and the repair.
	ErrPlanChanged = errors.New("catalog: repair plan changed")
	// ErrNotInitialized: the store holds no ledger yet.
	ErrNotInitialized = errors.New("catalog: no ledger in the catalog store")
	// ErrExists: the store holds a ledger, or rows, already.
	ErrExists = errors.New("catalog: ledger exists already")
	// ErrDesync: a counter cannot be read, or is missing although rows use its ids; run repair.
	ErrDesync = errors.New("catalog: counter desync")
	// ErrBehind: the working catalog lacks the ledger's newest snapshot.
	ErrBehind = errors.New("catalog: working catalog is behind the ledger")
	// ErrDiverged: the working catalog has another history than the ledger.
	ErrDiverged = errors.New("catalog: working catalog has another history than the ledger")
	// ErrJournaled: the journal has this version already.
	ErrJournaled = errors.New("catalog: version is in the journal already")
	// ErrNoEntry: the journal has no such version.
	ErrNoEntry = errors.New("catalog: no such version in the journal")
	// ErrValue: a stored row that cannot be decoded.
	ErrValue = errors.New("catalog: undecodable row")
)

// refuse makes the error a person sees for content that cannot be committed.
func refuse(cause error, next, format string, args ...any) error {
	return outcome.Wrap(outcome.Refused, fmt.Sprintf(format, args...), cause, next)
}

// damaged makes the error a person sees for a store that is not as it was written.
func damaged(cause error, format string, args ...any) error {
	return outcome.Wrap(outcome.Damaged, fmt.Sprintf(format, args...), cause, "")
}

// broken is refuse for a row of a working catalog.
func broken(t *Table, format string, args ...any) error {
	return refuse(ErrInvariant, "repair the working catalog, or throw the change away with tarn reset",
		"%s: %s", t.SQLName(), fmt.Sprintf(format, args...))
}
