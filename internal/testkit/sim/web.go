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
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A web serves a generated web to all agents, answers their DNS queries, and reports each request
// to the judge. It is machine 0 of the network.
type web struct {
	self  *simnet.Machine
	made  *gen.Web
	judge *judge
	waves bool // see wave

	queries atomic.Int64 // number of DNS queries
	dead    dials

	mu      sync.Mutex // guards the fields below
	away    bool       // no host accepts connections
	dnsAway bool       // queries get no answer
	asked   map[string]int
}

// webAddr is where the web's name server listens, at port 53. Its hosts have other addresses.
const webAddr = "192.0.2.1"

func newWeb(n *simnet.Network, made *gen.Web, j *judge) *web {
	w := &web{self: n.Machine(0, netip.MustParseAddr(webAddr)), made: made, judge: j, asked: map[string]int{}}
	w.self.Answer(53, w.resolve)
	return w
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
func (w *web) dial(ctx context.Context, m *simnet.Machine, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	if w.dead.refuses(to) {
		w.judge.tried(time.Now())
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ours, theirs, err := m.Connect(ctx, w.self, to, func() (time.Duration, bool) {
		connects, _, _ := w.wave()
		away, _ := w.isAway()
		return connects, !away
	})
	if err != nil {
		return nil, err
	}
	var read *reader
	if w.judge.rated {
		read = &reader{all: &w.judge.reads}
		ours.OnRead(read.add)
	}
	go w.serve(theirs, m.Number(), read)
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
func (w *web) serve(conn *simnet.Stream, agent int, read *reader) {
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
		for wait := reply.Wait + answers; wait > 0 && !conn.Deserted(); wait -= waitStep {
			time.Sleep(min(wait, waitStep))
		}
		whole := reply.Fault == testweb.NoFault && !conn.Deserted()
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
			conn.Reset()
			return
		case testweb.CloseAfter:
			return
		}
		if err != nil {
			return
		}
	}
}

// dialDNS connects a machine to the name server.
func (w *web) dialDNS(m *simnet.Machine) (net.Conn, error) {
	return m.Dial(context.Background(), "udp", webAddr+":53")
}

// resolve answers a packet to the name server. It returns nil if there is no answer.
func (w *web) resolve(packet []byte) []byte {
	w.queries.Add(1)
	var ask dns.Msg
	if _, away := w.isAway(); away || ask.Unpack(packet) != nil {
		return nil
	}
	answer, err := testweb.Resolve(&ask, time.Minute, w.find).Pack()
	if err != nil {
		return nil
	}
	return answer
}

// find returns the address of a host of the web. A name with a fault does not exist.
func (w *web) find(name string) (netip.Addr, testweb.DNSFault) {
	host, ok := w.made.Find(strings.ToLower(strings.TrimSuffix(name, ".")))
	if !ok || w.made.Host(host).DNS != "" {
		return netip.Addr{}, testweb.NoDomain
	}
	return w.made.Host(host).Addr, ""
}
