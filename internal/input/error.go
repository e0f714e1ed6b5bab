// Package input answers: which URL, host, domain or range of addresses does a person mean?
//
// People leave out schemes, paste URLs where a host is wanted, and write names in any spelling. The functions return
// the canonical form, or an error that says what would be right.
package input

import "fmt"

// An Error reports what a person has given wrongly, such as a setting. Its text names the value, and says what would be
// right.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Errorf returns an *Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }
