package rpc

import (
	"errors"
	"fmt"
	"io"
	"net"
)

// Errors between two agents that last until an operator changes a setting.
var (
	// ErrStranger reports an agent whose certificate another authority has signed.
	ErrStranger = errors.New("it is not of this cluster: another authority has signed its keys")
	// ErrKeysThere reports a call without keys to an agent with keys.
	ErrKeysThere = errors.New("that agent has --keys, and this agent has none")
	// ErrKeysHere reports a call with keys to an agent without keys.
	ErrKeysHere = errors.New("that agent has no --keys, and this agent has")
)

// Lasting reports that the next call will have the same error.
func Lasting(err error) bool {
	for _, l := range []error{ErrStranger, ErrKeysThere, ErrKeysHere, ErrPlain, ErrRejected} {
		if errors.Is(err, l) {
			return true
		}
	}
	return false
}

// noHandshake is sent if one side has keys and the other has none. It is a TLS record, which both
// can read: a fatal alert, handshake_failure (RFC 8446, 6). Nothing else here sends that alert. A
// server that requires TLS 1.3 and a certificate sends other alerts.
var noHandshake = []byte{recordAlert, 3, 3, 0, 2, 2, alertHandshake}

const (
	recordAlert     = 21
	recordHandshake = 22
	alertHandshake  = 40
)

// sayNoHandshake sends noHandshake and reads on: closing a connection with unread data may discard
// what was sent. The connection has a deadline.
func sayNoHandshake(raw net.Conn) {
	if _, err := raw.Write(noHandshake); err == nil {
		io.CopyN(io.Discard, raw, 16<<10)
	}
}

// An answered connection checks the first bytes that come in. Without keys these are a frame of
// HTTP/2. A frame never begins like an alert, because its length would be more than a megabyte.
type answered struct {
	net.Conn
	peer   *Peer
	looked bool
}

func (a *answered) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	if n == 0 || a.looked {
		return n, err
	}
	a.looked = true
	switch {
	case b[0] != recordAlert:
	case a.peer.client.config.Keys == nil:
		return 0, a.peer.setApart(ErrKeysThere)
	case n == len(noHandshake) && b[n-1] == alertHandshake:
		return 0, a.peer.setApart(ErrKeysHere)
	}
	return n, err
}

// setApart stores why the connection cannot be used. HTTP/2 does not always report it.
func (p *Peer) setApart(err error) error {
	p.apart.Store(&err)
	return err
}

// whyApart adds that reason to the error of a call.
func (p *Peer) whyApart(err error) error {
	if why := p.apart.Load(); err != nil && why != nil && !errors.Is(err, *why) {
		return fmt.Errorf("%w: %w", *why, err)
	}
	return err
}
