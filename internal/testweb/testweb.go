// Package testweb answers: what would the web have seen of this crawl?
//
// It serves any number of hosts on loopback over HTTP and HTTPS, with a name
// server and a certificate authority of its own, and keeps the server's own
// account of every request:
//
//	DNS -> accept -> TLS -> tracker.begin -> site -> tracker.end -> Report
//
// Its hosts are Sites with handlers, Folders of files, and those of an Origin,
// which makes millions of hosts up as they are asked for. The Origin's are
// served by a loop of its own (front) and cost the tracker some 600 bytes each,
// so that there may be a million of them, at tens of thousands of pages a
// second; all else is served by net/http.
//
// What always holds: nothing outside this machine can reach it, unless the
// machine routes its loopback addresses and Config.Routed is set; a request
// lasts from its first byte read until the last write of its response began
// or the client was gone, so that a client that keeps a delay is never blamed
// for the scheduling of the server; memory is bounded whatever the number of
// requests and hosts. It shares no code with the crawler that it judges: no
// robots, fetch or parse package is imported here.
//
// One Web is one server; all its methods are safe for concurrent use.
package testweb

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

// Config describes a Web. The zero Config serves nothing, on ports chosen by the system.
type Config struct {
	// Sites are the hosts by name; Folders adds folders of files to them, and
	// makes a site of every host that Sites does not have.
	Sites   []Site
	Folders []Folder
	// Origin makes up all hosts that neither Sites nor Folders have; nil: there are none.
	Origin Origin
	// Truth says what a crawl of the Origin should fetch, for the Report; nil: unknown.
	Truth Truth
	// Changes says when the Origin's pages change, for the Report to say how fresh
	// the crawl's copies are; nil: they do not change.
	Changes Changing
	// CloseEach ends every connection with its first response.
	CloseEach bool
	// HTTPPort and HTTPSPort are TCP ports on every loopback address. Zero
	// means that the system chooses.
	HTTPPort, HTTPSPort int
	// DNS and Control are host:port on loopback. Empty means 127.0.0.1:0.
	DNS, Control string
	// Routed also answers what comes to a loopback address over another device
	// than loopback. Linux drops that, unless it was told to route such packets
	// (route_localnet), as among network namespaces of one machine.
	Routed bool
	// Addresses spreads the hosts without an address of their own over so many
	// addresses, in order. Zero gives each host its own.
	Addresses int
	// TTL is the life of a DNS answer. Zero means 60s, negative means 0s.
	TTL time.Duration
	// Gzip compresses text for clients that ask for it.
	Gzip bool
	// CacheBytes bounds the files kept in memory. Zero means 256 MiB.
	CacheBytes int64
	// Shape is the line to the clients.
	Shape Shape
	// Promise is what the crawler has promised.
	Promise Promise
	// URLs bounds the URLs counted one by one, the Origin's pages aside; the requests for further ones
	// are counted in Report.Uncounted only. Zero means 4 million. The text of
	// the first KeepURLs is kept for Fetched; zero means 200,000.
	URLs, KeepURLs int
	// MaxHosts bounds the Origin's hosts of which an account is kept; requests
	// to further ones are counted in sum only. Zero means 2 million.
	MaxHosts int
	// LogEntries bounds the requests kept for Log, the newest ones. Zero means
	// 65,536, and none to the Origin's hosts.
	LogEntries int
	// Log gets a line for every finished request (see Entry.AppendTSV); nil writes none.
	Log io.Writer
}

// A Promise is the politeness that a crawl claims, for the tracker to check.
type Promise struct {
	// HostDelay, AddrDelay and SiteDelay are the least quiet times between the
	// end of a response and the next request to the same host, address or
	// registered domain. Zero checks none.
	HostDelay, AddrDelay, SiteDelay time.Duration
	// CrawlDelay says that the Crawl-delay of a robots.txt counts too, once
	// that file has been answered.
	CrawlDelay bool
	// Agent is the product token that robots.txt is read for. Empty means orbweaver.
	Agent string
}

// A Site is one host. Its parts are asked in this order: Rules, Robots,
// folders, Raw, Handler; what none of them answers is a 404.
type Site struct {
	Host string
	// Addr is an address of 127.0.0.0/8; empty: one that follows from the
	// name. Hosts may share an address.
	Addr string
	// Robots is the text of /robots.txt. Empty leaves that path to the rest.
	Robots string
	// Rules are misbehaviours, the first that applies wins.
	Rules []Rule
	// Raw answers in bytes of its own.
	Raw RawFunc
	// Handler answers what the folders do not have.
	Handler http.Handler
	// Scheme is "http" or "https" for a host whose pages live on that one and
	// redirect from the other. Empty serves the same on both.
	Scheme string
	// TLS and DNS name what is wrong with its certificate and its name.
	TLS TLSFault
	DNS DNSFault
}

// A site is a Site in service.
type site struct {
	Site
	addr    netip.Addr
	folders []mount
	rules   []ruleState
	robots  *Robots // what its robots.txt says to the promised agent; nil allows all
}

// Web is a running test web.
type Web struct {
	cfg              Config
	sites            map[string]*site
	ca               *authority
	track            *tracker
	cache            *fileCache
	plain, secure    net.Listener
	control          net.Listener
	dnsUDP           net.PacketConn
	dnsTCP           net.Listener
	connIDs          counter
	dnsQueries       counter
	tlsFull          counter
	tlsResumed       counter
	front            *front
	shaper           *shaper
	shut             chan struct{} // closed when the web goes down: sleeping sites wake
	shutOnce, closed sync.Once
}

// New opens the sockets of a Web, so that its addresses are known; Run serves
// on them. A Web that is never run must be closed.
func New(cfg Config) (*Web, error) {
	if cfg.Promise.Agent == "" {
		cfg.Promise.Agent = "orbweaver"
	}
	w := &Web{cfg: cfg, sites: map[string]*site{}, shut: make(chan struct{}), cache: newFileCache(cfg.CacheBytes)}
	if err := w.addSites(); err != nil {
		return nil, err
	}
	var err error
	if w.ca, err = newAuthority(time.Now()); err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	w.track = newTracker(cfg)
	w.front, w.shaper = newFront(w), newShaper(cfg.Shape)
	if err := w.listen(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// addSites fills the site table and gives every host its address.
func (w *Web) addSites() error {
	var order []string
	add := func(s Site) (*site, error) {
		host := strings.ToLower(strings.TrimSuffix(s.Host, "."))
		if host == "" || strings.ContainsAny(host, ":/ ") {
			return nil, fmt.Errorf("site %q: not a host name", s.Host)
		}
		if w.sites[host] != nil {
			return nil, fmt.Errorf("site %s: twice", host)
		}
		s.Host = host
		st := &site{Site: s, rules: newRuleStates(s.Rules)}
		w.sites[host] = st
		order = append(order, host)
		return st, nil
	}
	for _, s := range w.cfg.Sites {
		if _, err := add(s); err != nil {
			return err
		}
	}
	for _, f := range w.cfg.Folders {
		st := w.sites[strings.ToLower(f.Host)]
		if st == nil {
			var err error
			if st, err = add(Site{Host: f.Host, Scheme: f.Scheme}); err != nil {
				return err
			}
		}
		m, err := newMount(f, w.cache, w.cfg.Gzip)
		if err != nil {
			return err
		}
		st.folders = append(st.folders, m)
	}
	used := map[netip.Addr]bool{}
	for i, h := range order {
		st := w.sites[h]
		switch {
		case st.Addr != "":
			a, err := netip.ParseAddr(st.Addr)
			if err != nil || !a.Is4() || !a.IsLoopback() {
				return fmt.Errorf("site %s: address %q is not in 127.0.0.0/8", h, st.Addr)
			}
			st.addr = a
		case w.cfg.Addresses > 0:
			st.addr = addrOf("address "+strconv.Itoa(i%w.cfg.Addresses), nil)
		default:
			st.addr = addrOf(h, used)
		}
		used[st.addr] = true
		// Longest prefix first, so that the most specific folder answers.
		slices.SortStableFunc(st.folders, func(a, b mount) int { return len(b.prefix) - len(a.prefix) })
		st.robots = ReadRobots(st.robotsText(), w.cfg.Promise.Agent)
	}
	return nil
}

// addrOf is the loopback address that follows from a name: 127.1.0.0 to
// 127.254.255.255, the next free one when it is used already.
func addrOf(name string, used map[netip.Addr]bool) netip.Addr {
	h := fnv.New32a()
	io.WriteString(h, name)
	for n := h.Sum32(); ; n++ {
		a := netip.AddrFrom4([4]byte{127, byte(1 + (n>>16)%254), byte(n >> 8), byte(1 + n%254)})
		if !used[a] {
			return a
		}
	}
}

// robotsText is what the site serves as /robots.txt, so far as that is known beforehand.
func (s *site) robotsText() []byte {
	if s.Robots != "" {
		return []byte(s.Robots)
	}
	for i := range s.folders {
		if b := s.folders[i].text("/robots.txt"); b != nil {
			return b
		}
	}
	return nil
}

func (w *Web) listen() (err error) {
	if w.plain, err = listenLoopback(w.cfg.HTTPPort, w.cfg.Routed); err != nil {
		return fmt.Errorf("listen http: %w", err)
	}
	if w.secure, err = listenLoopback(w.cfg.HTTPSPort, w.cfg.Routed); err != nil {
		return fmt.Errorf("listen https: %w", err)
	}
	if w.control, err = net.Listen("tcp", loopbackOnly(w.cfg.Control)); err != nil {
		return fmt.Errorf("listen control: %w", err)
	}
	// The TCP port of the name server is the one that its UDP port got, so two tries may clash.
	for range 20 {
		if w.dnsUDP, err = net.ListenPacket("udp", loopbackOnly(w.cfg.DNS)); err != nil {
			return fmt.Errorf("listen dns: %w", err)
		}
		if w.dnsTCP, err = net.Listen("tcp", w.dnsUDP.LocalAddr().String()); err == nil {
			return nil
		}
		w.dnsUDP.Close()
	}
	return fmt.Errorf("listen dns: %w", err)
}

// loopbackOnly makes a wish for an address safe: whatever is not on loopback
// becomes 127.0.0.1 with the same port.
func loopbackOnly(wish string) string {
	host, port, err := net.SplitHostPort(wish)
	if err != nil {
		return "127.0.0.1:0"
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.IsLoopback() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// Run serves until ctx ends, and returns when every connection is closed. It may be called once.
func (w *Web) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	quiet := log.New(io.Discard, "", 0)
	srv := &http.Server{
		Handler:           http.HandlerFunc(w.serve),
		ConnState:         connState,
		ConnContext:       connContext,
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    4 << 20,
		ErrorLog:          quiet,
	}
	ctl := &http.Server{Handler: w.controlHandler(), ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	udp := &dns.Server{PacketConn: w.dnsUDP, Handler: dns.HandlerFunc(w.answer)}
	tcp := &dns.Server{Listener: w.dnsTCP, Handler: dns.HandlerFunc(w.answer)}
	ready := make(chan struct{}, 2) // one for each name server: neither may block
	udp.NotifyStartedFunc = func() { ready <- struct{}{} }
	tcp.NotifyStartedFunc = udp.NotifyStartedFunc
	raws := &sync.WaitGroup{}
	live := &connSet{m: map[*conn]struct{}{}}
	srv.SetKeepAlivesEnabled(!w.cfg.CloseEach)
	f := w.front
	for _, l := range []*listener{{w.plain, w, nil, raws, live},
		{w.secure, w, w.tlsConfig(), raws, live}} {
		if w.cfg.Origin == nil {
			g.Go(func() error { return notClosed(srv.Serve(l)) })
			continue
		}
		f.loops.Add(1)
		g.Go(func() error { return notClosed(f.accept(l)) })
	}
	if w.cfg.Origin != nil {
		g.Go(func() error { return notClosed(srv.Serve(f)) })
		g.Go(func() error { f.sweep(live); return nil })
	}
	g.Go(func() error { return notClosed(ctl.Serve(w.control)) })
	g.Go(func() error { return notClosed(udp.ActivateAndServe()) })
	g.Go(func() error { return notClosed(tcp.ActivateAndServe()) })
	g.Go(func() error {
		<-ctx.Done()
		w.shutOnce.Do(func() { close(w.shut) })
		<-ready
		<-ready
		udp.Shutdown()
		tcp.Shutdown()
		ctl.Close()
		// The connections go first, so that every handler sees its client
		// leave; then the server has nothing left to wait for. Those that a
		// raw site has taken over are not the server's any more.
		w.plain.Close()
		w.secure.Close()
		live.closeAll()
		f.Close()
		late, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := notClosed(srv.Shutdown(late))
		raws.Wait()
		f.loops.Wait()
		w.Close()
		return err
	})
	return g.Wait()
}

// Start runs the Web in the background; stop ends it and returns what Run returned.
func (w *Web) Start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // Run must not wait for a stop that never comes
	go func() { done <- w.Run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-done
	})
}

func notClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close closes the sockets of a Web that is not run.
func (w *Web) Close() {
	w.closed.Do(func() {
		for _, l := range []net.Listener{w.plain, w.secure, w.control, w.dnsTCP} {
			if l != nil {
				l.Close()
			}
		}
		if w.dnsUDP != nil {
			w.dnsUDP.Close()
		}
		w.track.log.flush()
	})
}

// HTTPPort and HTTPSPort are the ports on which every address answers.
func (w *Web) HTTPPort() int  { return w.plain.Addr().(*net.TCPAddr).Port }
func (w *Web) HTTPSPort() int { return w.secure.Addr().(*net.TCPAddr).Port }

// HTTPAddr returns host:port. Every other address of 127.0.0.0/8 answers too.
func (w *Web) HTTPAddr() string { return "127.0.0.1:" + strconv.Itoa(w.HTTPPort()) }

// HTTPSAddr returns host:port. Every other address of 127.0.0.0/8 answers too.
func (w *Web) HTTPSAddr() string { return "127.0.0.1:" + strconv.Itoa(w.HTTPSPort()) }

// DNSAddr returns host:port of the name server, for UDP and TCP.
func (w *Web) DNSAddr() string { return w.dnsUDP.LocalAddr().String() }

// ControlAddr returns host:port of the control interface.
func (w *Web) ControlAddr() string { return w.control.Addr().String() }

// CAPEM is the certificate of the authority that signs the hosts' certificates.
func (w *Web) CAPEM() []byte { return w.ca.pem }

// ConnectTo is the values of the crawler's --connect-to flags that lead the
// ports 80 and 443 here.
func (w *Web) ConnectTo() []string {
	return []string{fmt.Sprintf(":80::%d", w.HTTPPort()), fmt.Sprintf(":443::%d", w.HTTPSPort())}
}

// Hosts are the names of Sites and Folders, sorted; the Origin's are not among them.
func (w *Web) Hosts() []string {
	hs := make([]string, 0, len(w.sites))
	for h := range w.sites {
		hs = append(hs, h)
	}
	slices.Sort(hs)
	return hs
}

// Lookup is the address of a host, as the name server gives it.
func (w *Web) Lookup(host string) (netip.Addr, bool) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if st := w.sites[name]; st != nil {
		return st.addr, true
	}
	if oh, ok := w.origin(name); ok {
		return oh.Addr, true
	}
	return netip.Addr{}, false
}

// origin is the Origin's host of this name.
func (w *Web) origin(name string) (OriginHost, bool) {
	if w.cfg.Origin == nil {
		return OriginHost{}, false
	}
	n, ok := w.cfg.Origin.Find(name)
	if !ok {
		return OriginHost{}, false
	}
	return w.cfg.Origin.Host(n), true
}

// DialContext connects to the port of this Web that stands for addr's, which
// names a host of it. It fits http.Transport.
func (w *Web) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	a, ok := w.Lookup(host)
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	switch port {
	case "80":
		port = strconv.Itoa(w.HTTPPort())
	case "443":
		port = strconv.Itoa(w.HTTPSPort())
	}
	var d net.Dialer
	return d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
}
