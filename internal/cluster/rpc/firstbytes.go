package rpc

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An answered connection judges the first bytes that come in: do they come from an agent
// or a coordinator?
type answered struct {
	net.Conn
	peer   *Peer
	looked atomic.Bool // the first bytes are judged
	mu     sync.Mutex  // held during the first Read, so that Write can wait for its judgement
}

// lookTime and lookBytes bound how long a failed Write looks for bytes that say why, and for how many.
const lookTime, lookBytes = 100 * time.Millisecond, 64

func (a *answered) Read(b []byte) (int, error) {
	if a.looked.Load() {
		return a.Conn.Read(b)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.Conn.Read(b)
	if n > 0 && !a.looked.Load() { // a second caller may have waited for the first one
		defer a.looked.Store(true) // behind the judgement: a Write that fails meanwhile waits for it
		a.peer.stage.Store(heard)
		if why := notOurs(b[:n], a.peer.client.config.Keys != nil, a.peer.role); why != nil {
			return 0, a.peer.setApart(why)
		}
	} else if err != nil && !errors.Is(err, net.ErrClosed) && !isTimeout(err) {
		a.peer.stage.CompareAndSwap(reached, hungUp)
	}
	return n, err
}

// Write first looks at what came in if it fails: a server that refuses a call may have said so and
// closed the connection before the call was written.
func (a *answered) Write(b []byte) (int, error) {
	n, err := a.Conn.Write(b)
	if err != nil && !a.looked.Load() {
		a.Conn.SetReadDeadline(time.Now().Add(lookTime))
		a.Read(make([]byte, lookBytes))
	}
	return n, err
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// frameSettings is the type of the frame that begins what a server of HTTP/2 sends. The type is the
// fourth octet of a frame (RFC 9113, sections 3.4 and 4.1).
const frameSettings = 4

// notOurs returns why the first bytes of an answer are not those of an agent or coordinator with
// which this one can talk, or nil if they are.
func notOurs(b []byte, keys bool, wanted role) error {
	refusal := len(b) >= len(noHandshake) && string(b[:len(noHandshake)]) == string(noHandshake)
	switch first := string(b); {
	case refusal && keys:
		return ErrKeysHere
	case refusal:
		return ErrKeysThere
	case strings.HasPrefix(first, "HTTP/"):
		return &ForeignError{"a web server", wanted}
	case strings.HasPrefix(first, "SSH-"):
		return &ForeignError{"an SSH server", wanted}
	case b[0] == recordAlert && len(b) > 5 && b[5] == levelFatal:
		return &ForeignError{"a TLS server", wanted}
	case keys && b[0] != recordHandshake, !keys && len(b) > 3 && b[3] != frameSettings:
		line, _, _ := strings.Cut(first[:min(len(first), lookBytes)], "\n")
		return &ForeignError{"a program that says " + strconv.Quote(strings.TrimSpace(line)), wanted}
	}
	return nil
}

// notOfCluster returns a *ForeignError if a certificate is not in the form of an agent's or a
// coordinator's.
func notOfCluster(c *x509.Certificate, wanted role) error {
	if strings.HasPrefix(c.Issuer.CommonName, authorityName) {
		return nil
	}
	return &ForeignError{"a TLS server", wanted}
}

// notAnswer returns a *ForeignError if a response is not in the form of an agent's or coordinator's.
func notAnswer(r *http.Response, wanted role) error {
	want := "application/json" // an error of Connect
	switch r.StatusCode {
	case http.StatusOK:
		want = "application/proto"
	case http.StatusNotFound, http.StatusNotImplemented:
		want = "" // agents and coordinators know all calls
	}
	if want == r.Header.Get("Content-Type") && want != "" {
		return nil
	}
	return &ForeignError{"an HTTP/2 server", wanted}
}

// setApart stores why the connection cannot be used. HTTP/2 does not always report it.
func (p *Peer) setApart(err error) error {
	p.apart.Store(&err)
	return err
}

// The stages of a Peer's last connection.
const (
	unreached int32 = iota
	reached         // connected
	hungUp          // the other side has closed it and sent nothing
	heard           // bytes have come in
)

// whyApart adds to the error of a call why the connection cannot be used.
func (p *Peer) whyApart(err error) error {
	if err == nil {
		return nil
	}
	var why error
	if apart := p.apart.Load(); apart != nil {
		why = *apart
	} else if stage := p.stage.Load(); stage == reached {
		why = ErrSilent
	} else if stage == hungUp {
		why = ErrHungUp
	}
	if why == nil || errors.Is(err, why) {
		return err
	}
	return fmt.Errorf("%w: %w", why, err)
}
