package state

import "fmt"

// A Handler processes a record for a T, which the caller defines.
type Handler[T any] func(to T, kind byte, p []byte) error

// A Table tells for each kind of records what becomes of them.
type Table[Resume, Checkpoint, Repair, Transfer any] [256]row[Resume, Checkpoint, Repair, Transfer]

type row[Resume, Checkpoint, Repair, Transfer any] struct {
	name       string
	resume     Handler[Resume]
	checkpoint Handler[Checkpoint]
	repair     Handler[Repair]
	transfer   Handler[Transfer]
}

// Add adds the row of a kind, which must be new: what becomes of its records after a restart, when a checkpoint
// replaces them, when the keys of the seen-set are collected again, and when heirs get the whole state. A nil handler
// ignores them.
func (t *Table[A, B, C, D]) Add(kind byte, name string, resume Handler[A], checkpoint Handler[B], repair Handler[C],
	transfer Handler[D]) {
	if t[kind].name != "" {
		panic(fmt.Sprintf("record kind %q has two rows", kind))
	}
	t[kind] = row[A, B, C, D]{name, resume, checkpoint, repair, transfer}
}

// Name returns the name of a kind, for people; empty: it has no row.
func (t *Table[A, B, C, D]) Name(kind byte) string { return t[kind].name }

// Resumes reports that a kind has a row that reads its records after a restart.
func (t *Table[A, B, C, D]) Resumes(kind byte) bool { return t[kind].resume != nil }

// Resume returns the function that processes a record after a restart.
func (t *Table[A, B, C, D]) Resume(to A) func(kind byte, p []byte) error {
	return func(kind byte, p []byte) error { return apply(t[kind].name, t[kind].resume, to, kind, p) }
}

// Checkpoint returns the function that processes a record that a checkpoint replaces.
func (t *Table[A, B, C, D]) Checkpoint(to B) func(kind byte, p []byte) error {
	return func(kind byte, p []byte) error { return apply(t[kind].name, t[kind].checkpoint, to, kind, p) }
}

// Repair returns the function that collects the keys of a record.
func (t *Table[A, B, C, D]) Repair(to C) func(kind byte, p []byte) error {
	return func(kind byte, p []byte) error { return apply(t[kind].name, t[kind].repair, to, kind, p) }
}

// Transfer returns the function that ships a record to heirs.
func (t *Table[A, B, C, D]) Transfer(to D) func(kind byte, p []byte) error {
	return func(kind byte, p []byte) error { return apply(t[kind].name, t[kind].transfer, to, kind, p) }
}

// apply calls a handler for a record. A kind without a row is damage.
func apply[T any](name string, h Handler[T], to T, kind byte, p []byte) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: kind %q", ErrRecord, kind)
	case h == nil:
		return nil
	}
	if err := h(to, kind, p); err != nil {
		return fmt.Errorf("%s record: %w", name, err)
	}
	return nil
}
