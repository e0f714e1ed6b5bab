package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"syscall"
)

// Errors between two agents that last until an operator changes a setting.
var (
	// ErrStranger reports an agent whose certificate another authority has signed.
	ErrStranger = errors.New("that agent is not of this cluster: another authority has signed its keys")
	// ErrKeysThere reports a call without keys to an agent with keys.
	ErrKeysThere = errors.New("that agent has keys, and this agent has none")
	// ErrKeysHere reports a call with keys to an agent without keys.
	ErrKeysHere = errors.New("that agent has no keys, and this agent has")
)

// A ForeignError reports an address at which no agent, or no coordinator, answers, but another
// program.
type ForeignError struct {
	Program string // what answers, such as "an SSH server"
	wanted  role
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s answers there, not %s of Orbweaver", e.Program, e.wanted)
}

// Errors of an address at which something accepts connections and never sends a byte. An agent that
// is starting may do so.
var (
	ErrSilent = errors.New("it accepts connections, but says nothing")
	ErrHungUp = errors.New("it accepts connections, but closes them without an answer, as an HTTPS server does")
)

// Lasting returns the part of err that the next call will have, too, or nil if there is none.
func Lasting(err error) error {
	if foreign, ok := errors.AsType[*ForeignError](err); ok {
		return foreign
	}
	for _, l := range []error{ErrStranger, ErrKeysThere, ErrKeysHere, ErrPlain, ErrRejected} {
		if errors.Is(err, l) {
			return l
		}
	}
	return nil
}

// called matches the call and the address that the errors of calls begin with.
var called = regexp.MustCompile(`^[A-Z][a-z]+ \S+?(?: \(\S+\))?: `)

// Why says in few words why a call failed, without the call and the address.
func Why(err error) string {
	var no syscall.Errno
	var name *net.DNSError
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal.Text
	case errors.Is(err, ErrAgain):
		return "that agent looks for the others, too"
	case Lasting(err) != nil && !errors.Is(err, ErrRejected):
		return Lasting(err).Error()
	case errors.Is(err, ErrSilent):
		return ErrSilent.Error()
	case errors.Is(err, ErrHungUp):
		return ErrHungUp.Error()
	case errors.As(err, &name) && name.IsNotFound:
		return "no such host"
	case errors.As(err, &no):
		return no.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	}
	return called.ReplaceAllString(err.Error(), "")
}

// noHandshake is sent if one side has keys and the other has none. It is a TLS record, which both
// can read: a fatal alert, handshake_failure (RFC 8446, 6). Nothing else here sends that alert. A
// server that requires TLS 1.3 and a certificate sends other alerts.
var noHandshake = []byte{recordAlert, 3, 3, 0, 2, levelFatal, alertHandshake}

const (
	recordAlert     = 21
	recordHandshake = 22
	levelFatal      = 2 // the sixth octet of an alert
	alertHandshake  = 40
)

// sayNoHandshake sends noHandshake and reads on: closing a connection with unread data may discard
// what was sent. The connection has a deadline.
func sayNoHandshake(raw net.Conn) {
	if _, err := raw.Write(noHandshake); err == nil {
		io.CopyN(io.Discard, raw, 16<<10)
	}
}
