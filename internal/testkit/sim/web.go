package sim

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A web serves a generated web to all agents, answers their DNS queries, and reports each request
// to the judge. It is machine 0 of the network.
type web struct {
	net   *network
	self  *machine
	made  *gen.Web
	judge *judge
	waves bool // see wave

	queries atomic.Int64 // number of DNS queries

	mu      sync.Mutex // guards the fields below
	away    bool       // no host accepts connections
	dnsAway bool       // queries get no answer
	asked   map[string]int
}

func newWeb(n *network, made *gen.Web, j *judge) *web {
	self := n.machine(0, netip.MustParseAddr("192.0.2.1"))
	return &web{net: n, self: self, made: made, judge: j, asked: map[string]int{}}
}

func (w *web) set(away, dnsAway bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away, w.dnsAway = away, dnsAway
}

func (w *web) isAway() (web, dns bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.away, w.dnsAway
}

// dial connects an agent's machine to a host of the web.
func (w *web) dial(ctx context.Context, m *machine, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	resend := firstResend
	for {
		out, lost := w.net.fate(m.number, 0, 0)
		back, lostToo := w.net.fate(0, m.number, 0)
		connects, _, _ := w.wave()
		wait := out + back + connects
		away, _ := w.isAway()
		if lost = lost || lostToo || away; lost {
			wait, resend = resend, min(2*resend, lastResend)
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
		if m.isOff() {
			return nil, errRefused
		}
		if !lost {
			break
		}
	}
	ours, theirs := m.connect(w.self, netip.AddrPortFrom(m.addr, w.net.ephemeral()), to)
	var read *reader
	if w.judge.rated {
		read = &reader{all: &w.judge.reads}
		ours.hears = read.add
	}
	go w.serve(theirs, m.number, read)
	return ours, nil
}

// waitStep is how soon a host that is slow notices that the client has gone.
const waitStep = 10 * time.Millisecond

// notNow ends the first line of a response with status 503, which has no Retry-After by itself.
const notNow = "\r\nRetry-After: 2\r\n"

// wave returns how much longer than usual connections and answers take now, and how much larger answers are in bytes.
// Each state lasts seven seconds.
func (w *web) wave() (connects, answers time.Duration, pad int) {
	if !w.waves {
		return 0, 0, 0
	}
	switch time.Since(start) / (7 * time.Second) % 4 {
	case 0:
		return 200 * time.Millisecond, 0, 0
	case 1:
		return 0, 600 * time.Millisecond, 0
	case 2:
		return 0, 0, 50_000
	}
	return 0, 0, 0
}

// serve answers the requests of one connection, one after the other. An agent that keeps a limit of the rate may read
// an answer long after it was written. Then read, if not nil, says when the agent has fetched it.
func (w *web) serve(conn *stream, agent int, read *reader) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	var answer []byte
	written := 0 // bytes of the connection
	for {
		conn.SetReadDeadline(time.Now().Add(5 * time.Minute))
		if _, err := in.Peek(1); err != nil {
			return
		}
		began := time.Now()
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		host, ok := w.made.Find(strings.ToLower(strings.TrimSuffix(r.Host, ".")))
		if !ok {
			n, _ := conn.Write([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
			written += n
			continue
		}
		w.mu.Lock()
		key := r.Host + r.RequestURI
		q := testweb.Query{Host: host, Target: r.RequestURI, Gzip: true, Answered: min(w.asked[key], 3)}
		w.mu.Unlock()
		visit := w.judge.begin(w.made.Host(host), agent, r.RequestURI, began)
		var reply testweb.Reply
		answer, reply = w.made.Answer(answer[:0], q)
		if reply.Status == http.StatusServiceUnavailable {
			answer, reply.RetryAfter = bytes.Replace(answer, []byte("\r\n"), []byte(notNow), 1), 2*time.Second
		}
		if reply.Page < 0 {
			w.mu.Lock()
			w.asked[key]++
			w.mu.Unlock()
		}
		_, answers, pad := w.wave()
		if pad > 0 {
			answer = bytes.Replace(answer, []byte("\r\n"), fmt.Appendf(nil, "\r\nX-Padding: %0*d\r\n", pad, 0), 1)
		}
		for wait := reply.Wait + answers; wait > 0 && !conn.deserted(); wait -= waitStep {
			time.Sleep(min(wait, waitStep))
		}
		whole := reply.Fault == testweb.NoFault && !conn.deserted()
		if !whole {
			answer = answer[:min(len(answer), reply.Cut)]
		}
		n, err := conn.Write(answer)
		written += n
		visit.ended(host, reply, time.Now())
		if whole && err == nil {
			fetch := func() { visit.fetched(host, reply, time.Now()) }
			if read == nil {
				fetch()
			} else {
				read.when(written, fetch)
			}
		}
		switch reply.Fault {
		case testweb.HangAfter:
			in.Peek(1) // waits until the client closes the connection
			return
		case testweb.ResetAfter:
			conn.abort(true)
			return
		case testweb.CloseAfter:
			return
		}
		if err != nil {
			return
		}
	}
}

// A query is a socket to the web's name server. Each packet is one message.
type query struct {
	w *web
	m *machine

	mu      sync.Mutex // guards the fields below
	cond    sync.Cond
	answers [][]byte
	until   time.Time
	alarm   *time.Timer
	closed  bool
}

// dialDNS connects an agent's machine to the name server.
func (w *web) dialDNS(m *machine) (net.Conn, error) {
	q := &query{w: w, m: m}
	q.cond.L = &q.mu
	return q, nil
}

// Write implements net.Conn: it sends one query.
func (q *query) Write(b []byte) (int, error) {
	q.w.queries.Add(1)
	out, lost := q.w.net.fate(q.m.number, 0, len(b))
	back, lostToo := q.w.net.fate(0, q.m.number, len(b))
	if _, away := q.w.isAway(); lost || lostToo || away || q.m.isOff() {
		return len(b), nil
	}
	var ask dns.Msg
	if err := ask.Unpack(b); err != nil {
		return len(b), nil
	}
	answer, err := q.w.resolve(&ask).Pack()
	if err != nil {
		return 0, err
	}
	time.AfterFunc(out+back, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.answers = append(q.answers, answer)
		q.cond.Broadcast()
	})
	return len(b), nil
}

// resolve answers a query with the address of a host of the web.
func (w *web) resolve(ask *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(ask)
	m.Authoritative = true
	if len(ask.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		return m
	}
	q := ask.Question[0]
	host, ok := w.made.Find(strings.ToLower(strings.TrimSuffix(q.Name, ".")))
	if !ok || w.made.Host(host).DNS != testweb.DNSFault("") {
		m.Rcode = dns.RcodeNameError
		return m
	}
	if q.Qtype == dns.TypeA {
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
			A:   w.made.Host(host).Addr.AsSlice(),
		})
	}
	return m
}

// Read implements net.Conn: it waits for one answer.
func (q *query) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.closed:
			return 0, net.ErrClosed
		case !q.until.IsZero() && until(q.until) <= 0:
			return 0, errTimeout
		case len(q.answers) > 0:
			n := copy(b, q.answers[0])
			q.answers = q.answers[1:]
			return n, nil
		}
		q.cond.Wait()
	}
}

// Close implements net.Conn.
func (q *query) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.alarm != nil {
		q.alarm.Stop()
	}
	q.cond.Broadcast()
	return nil
}

// SetDeadline implements net.Conn.
func (q *query) SetDeadline(t time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.until = t
	if q.alarm != nil {
		q.alarm.Stop()
		q.alarm = nil
	}
	if d := until(t); !t.IsZero() && d > 0 && !q.closed {
		q.alarm = time.AfterFunc(d, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.cond.Broadcast()
		})
	}
	q.cond.Broadcast()
	return nil
}

// SetReadDeadline implements net.Conn.
func (q *query) SetReadDeadline(t time.Time) error { return q.SetDeadline(t) }

// SetWriteDeadline implements net.Conn. Writing never blocks.
func (q *query) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (q *query) LocalAddr() net.Addr { return &net.UDPAddr{IP: q.m.addr.AsSlice(), Port: 40000} }

// RemoteAddr implements net.Conn.
func (q *query) RemoteAddr() net.Addr { return &net.UDPAddr{IP: q.w.self.addr.AsSlice(), Port: 53} }
