// Package input answers: which URL, host, domain or range of addresses does a person mean?
//
// People leave out schemes, paste URLs where a host is wanted, and write names in any spelling. The functions return
// the canonical form, or an error that says what would be right.
package input

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
)

// An Error reports what a person has given wrongly, such as a setting. Its text names the value, and says what would be
// right.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Errorf returns an *Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// flagNames are the flags with which errors of the packages fetch, dns and scope begin, one on a line.
var flagNames = regexp.MustCompile(`(?m)^(ca|proxy|connect-to|dns|include|exclude)[ :]`)

// FlagError returns an *Error for an error of the packages fetch, dns or scope about a setting. Its text names the
// flag.
func FlagError(err error) error { return &Error{flagNames.ReplaceAllString(err.Error(), "--$0")} }

// CheckAddress returns an *Error unless addr, a value of a flag, is a host and a port.
func CheckAddress(flag, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return Errorf("--%s %q: give an address and a port, such as 192.0.2.1:7490", flag, addr)
	}
	return nil
}
