package dns

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// udpSize is the largest UDP reply that we announce, in octets. It fits the packets of every
	// path (RFC 6891, 6.2.5, and the DNS flag day of 2020).
	udpSize = 1232
	// maxJunk is the number of datagrams without an answer after which a query fails.
	maxJunk = 64
	// maxRefusals is how many SERVFAIL replies to one question exclude a server from that question.
	// It is 2, because a recursive server that ran out of time may have the answer at the second
	// query.
	maxRefusals = 2
)

// errReply means that a query or a reply is malformed, or that no reply answers the question.
var errReply = errors.New("malformed reply")

// A server is a configured server and its health.
type server struct {
	addr string
	// mu guards fails and until.
	mu    sync.Mutex
	fails int       // failed queries in a row
	until time.Time // until then this server is asked last

	sockets sockets
}

// missed records that a query failed. After three failures in a row the server is asked last for 5
// s. Each further failure doubles this time, up to a minute.
func (s *server) missed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails++
	if s.fails >= 3 {
		s.until = now.Add(min(5*time.Second<<min(s.fails-3, 4), time.Minute))
	}
}

// replied records that the server sent a valid reply, with any response code.
func (s *server) replied() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.until = 0, time.Time{}
}

// order returns the servers in the order of use at now: first the healthy ones, then the others,
// each group as configured.
func (r *Resolver) order(now time.Time) []*server {
	good := make([]*server, 0, len(r.servers))
	var bad []*server
	for _, s := range r.servers {
		s.mu.Lock()
		waits := now.Before(s.until)
		s.mu.Unlock()
		if waits {
			bad = append(bad, s)
		} else {
			good = append(good, s)
		}
	}
	return append(good, bad...)
}

// exchange asks the servers in turn until one replies NOERROR or NXDOMAIN. name is in presentation
// form, with or without its final dot. The error is ErrTimeout, ErrServer or ctx's.
func (r *Resolver) exchange(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	servers := r.order(r.cfg.Clock.Now())
	refused := make([]int, len(servers))
	var timedOut bool
	var last error
	for tries, i, out := 0, 0, 0; tries < max(r.cfg.Attempts, len(servers)) && out < len(servers); i++ {
		at := i % len(servers)
		if refused[at] >= maxRefusals {
			continue
		}
		s := servers[at]
		tries++
		m, err := r.ask(ctx, s, name, qtype)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if isTimeout(err) {
				timedOut = true
			} else {
				last = err
			}
			s.missed(r.cfg.Clock.Now())
			continue
		}
		s.replied()
		switch {
		case m.Rcode == dns.RcodeNameError:
			return m, nil
		case m.Rcode == dns.RcodeSuccess && !lame(m):
			return m, nil
		case m.Rcode == dns.RcodeServerFailure:
			refused[at]++
		default: // REFUSED and similar codes do not change at a second query
			refused[at] = maxRefusals
		}
		if refused[at] >= maxRefusals {
			out++
		}
		last = fmt.Errorf("%s from %s", rcode(m), s.addr)
	}
	switch {
	case last != nil:
		return nil, fmt.Errorf("%w: %w", ErrServer, last)
	case timedOut:
		return nil, ErrTimeout
	}
	return nil, ErrServer
}

func rcode(m *dns.Msg) string {
	if m.Rcode == dns.RcodeSuccess {
		return "referral"
	}
	if s, ok := dns.RcodeToString[m.Rcode]; ok {
		return s
	}
	return fmt.Sprintf("rcode %d", m.Rcode)
}

// lame reports whether m only refers to other servers, because the server does not recurse.
func lame(m *dns.Msg) bool {
	if len(m.Answer) > 0 || m.Authoritative {
		return false
	}
	ns := false
	for _, rr := range m.Ns {
		switch rr.Header().Rrtype {
		case dns.TypeSOA:
			return false
		case dns.TypeNS:
			ns = true
		}
	}
	return ns
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// ask sends one question to one server by UDP with EDNS. It repeats the question without EDNS if
// the server does not support EDNS, and by TCP if the reply is truncated. It blocks until one of
// Config.Concurrency slots is free.
func (r *Resolver) ask(ctx context.Context, s *server, name string, qtype uint16) (*dns.Msg, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), qtype)
	q.SetEdns0(udpSize, false)
	m, err := r.viaUDP(ctx, s, q)
	if err == nil {
		switch m.Rcode {
		case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
			q.Extra = nil
			m, err = r.viaUDP(ctx, s, q)
		}
	}
	if err == nil && m.Truncated {
		m, err = r.viaTCP(ctx, s.addr, q)
	}
	return m, err
}

// buffers hold datagrams. They are larger than udpSize, because some servers send more.
var buffers = sync.Pool{New: func() any { return new([4096]byte) }}

// viaUDP sends q under a new id. It returns the first reply to it within Config.Timeout.
func (r *Resolver) viaUDP(ctx context.Context, srv *server, q *dns.Msg) (*dns.Msg, error) {
	buf := buffers.Get().(*[4096]byte)
	defer buffers.Put(buf)
	var out [512]byte
	q.Id = dns.Id()
	wire, err := q.PackBuffer(out[:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReply, err) // the name comes from a CNAME
	}
	s, err := srv.sockets.take(ctx, r, srv.addr)
	if err != nil {
		return nil, err
	}
	conn := s.conn
	if err := conn.SetDeadline(time.Now().Add(r.cfg.Timeout)); err != nil {
		conn.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	n, clean, err := roundTrip(conn, wire, buf[:])
	if stop() && clean && err == nil {
		srv.sockets.put(r, s)
	} else {
		conn.Close()
	}
	if err != nil {
		return nil, err
	}
	return unpack(buf[:n])
}

// roundTrip sends wire and returns the length of the reply in buf. clean is true if no other
// datagram came before it.
func roundTrip(conn net.Conn, wire, buf []byte) (n int, clean bool, err error) {
	if _, err := conn.Write(wire); err != nil {
		return 0, false, err
	}
	for i := range maxJunk {
		n, err := conn.Read(buf)
		if err != nil {
			return 0, false, err
		}
		if answers(buf[:n], wire) {
			return n, i == 0, nil
		}
	}
	return 0, false, fmt.Errorf("%w: none of %d datagrams answers the question", errReply, maxJunk)
}

// viaTCP asks over a new connection. Dialling may take Config.Timeout, and the exchange as long
// again.
func (r *Resolver) viaTCP(ctx context.Context, addr string, q *dns.Msg) (*dns.Msg, error) {
	q.Id = dns.Id()
	wire, err := q.Pack()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReply, err)
	}
	conn, err := r.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if d, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(d); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(wire)), uint16(len(wire)))
	if _, err := conn.Write(append(framed, wire...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, reply); err != nil {
		return nil, err
	}
	if !answers(reply, wire) {
		return nil, fmt.Errorf("%w: the TCP reply answers another question", errReply)
	}
	m, err := unpack(reply)
	if err == nil && m.Truncated {
		return nil, fmt.Errorf("%w: the TCP reply is truncated", errReply)
	}
	return m, err
}

const headerLen = 12

// answers reports whether reply answers query: it has the same id and question and is marked as a
// reply (RFC 5452, 3). A server that could not read the query may leave out the question.
func answers(reply, query []byte) bool {
	if len(reply) < headerLen || !bytes.Equal(reply[:2], query[:2]) {
		return false
	}
	const response, opcode = 0x80, 0x78
	if reply[2]&response == 0 || reply[2]&opcode != 0 {
		return false
	}
	switch binary.BigEndian.Uint16(reply[4:]) {
	case 0:
		code := int(reply[3] & 0x0F)
		return code == dns.RcodeFormatError || code == dns.RcodeNotImplemented
	case 1:
		n := questionLen(query)
		if len(reply) < n {
			return false
		}
		return bytes.EqualFold(reply[headerLen:n-4], query[headerLen:n-4]) && bytes.Equal(reply[n-4:n], query[n-4:n])
	}
	return false
}

// questionLen returns the length in octets of the header and question of a query that we packed.
func questionLen(query []byte) int {
	at := headerLen
	for query[at] != 0 {
		at += 1 + int(query[at])
	}
	return at + 1 + 4
}

// unpack reads a reply. If a truncated reply cannot be read, unpack returns an empty truncated
// message, because TCP will bring the whole reply.
func unpack(wire []byte) (*dns.Msg, error) {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		if wire[2]&0x02 != 0 {
			return &dns.Msg{MsgHdr: dns.MsgHdr{Truncated: true}}, nil
		}
		return nil, fmt.Errorf("%w: %w", errReply, err)
	}
	return m, nil
}
