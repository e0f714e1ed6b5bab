// Package testweb answers: how did a crawl behave, as its servers saw it?
//
// It serves any number of hosts on loopback over HTTP and HTTPS, with its own name server and certificate authority,
// and records every request:
//
//	DNS -> accept -> TLS -> tracker.begin -> site -> tracker.end -> Report
//
// Its hosts are Sites with handlers, Folders of files, and the hosts of an Origin, which generates millions of hosts
// when they are requested. A loop of the package itself (front) serves the Origin's hosts, at tens of thousands of
// pages a second. Each costs the tracker about 600 bytes, so there may be a million of them. net/http serves everything
// else.
//
// Invariants:
//   - No other machine can reach a Web, unless this machine routes its loopback addresses and Config.Routed is set.
//   - A request lasts from the moment when its first byte is read until the last write of its response begins, or until
//     the client has closed. So a client that keeps a delay is never blamed for the scheduling of the server.
//   - Memory is bounded, whatever the number of requests and hosts.
//   - The package shares no code with the crawler that it judges: it imports no robots, fetch or parse package.
//
// A Web is one server. The caller of New runs it or closes it. All its methods are safe for concurrent use.
package testweb

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

// Config describes a Web. The zero Config serves no hosts, on ports that the system chooses.
type Config struct {
	// Sites are hosts by name. Folders adds folders of files to them, and makes a site of every other host.
	Sites   []Site
	Folders []Folder
	// Origin generates all hosts that neither Sites nor Folders have; nil: there are none.
	Origin Origin
	// Truth knows which pages of the Origin a crawl should fetch, for the Report; nil: unknown.
	Truth Truth
	// Changes knows when the Origin's pages change, so that the Report can tell how fresh the crawl's copies are; nil:
	// they do not change.
	Changes Changing
	// Apps are hosts of Sites whose pages need scripts, for the Report.
	Apps []App
	// CloseEach closes every connection after its first response.
	CloseEach bool
	// HTTPPort and HTTPSPort are TCP ports on every loopback address. Zero lets the system choose.
	HTTPPort, HTTPSPort int
	// Ports are ports of URLs besides 80 and 443. ConnectTo leads them to HTTPPort and HTTPSPort, too.
	Ports []Port
	// IPs are the Origin's hosts whose names are IPv4 addresses outside loopback. Clients do not look such a host up.
	// With Sockets they connect to the address, so it must be one of theirs; otherwise ConnectTo leads to
	// OriginHost.Addr.
	IPs []netip.Addr
	// DNS and Control are addresses (host:port) on loopback. Empty means 127.0.0.1:0.
	DNS, Control string
	// Sockets are open sockets to serve on. They are set if HTTPPort, HTTPSPort and DNS are not; nil opens new ones.
	Sockets *Sockets
	// Routed also accepts connections to a loopback address over another network device. Linux drops these unless it
	// was told to route them (route_localnet), as between network namespaces of one machine.
	Routed bool
	// Addresses is the number of addresses that hosts without an address of their own share, in turn. Zero gives each
	// host its own address.
	Addresses int
	// TTL is the lifetime of a DNS response. Zero means 60 s, negative means 0 s.
	TTL time.Duration
	// Gzip compresses text for clients that accept it.
	Gzip bool
	// CacheBytes bounds the memory for files of Folders. Zero means 256 MiB.
	CacheBytes int64
	// Shape simulates the network line to the clients. Zero does not limit it.
	Shape Shape
	// Promise is the politeness that the crawler claims, which the Report checks.
	Promise Promise
	// URLs is how many URLs are counted individually, without the Origin's pages. Requests for further ones are only
	// in Report.Uncounted. Zero means 4 million. The first KeepURLs of them are kept as text for Fetched; zero means
	// 200,000.
	URLs, KeepURLs int
	// MaxHosts is how many of the Origin's hosts are tracked individually. Requests to further ones are only in the
	// totals. Zero means 2 million.
	MaxHosts int
	// LogEntries is how many of the newest requests are kept for Log. Zero means 65,536 and, to save time, none to the
	// Origin's hosts.
	LogEntries int
	// Log receives a line for every finished request (see Entry.AppendTSV), in one Write, until Close or the end of
	// Run. The web waits for the Write. nil: no lines are written.
	Log io.Writer
}

// A Port is a port of URLs, with its scheme.
type Port struct {
	Number uint16
	Secure bool // HTTPS
}

// Sockets are the sockets of a Web that its caller has opened, such as in another network namespace. Clients reach them
// at loopback addresses and at Config.IPs. The Web closes them.
type Sockets struct {
	HTTP, HTTPS, DNSTCP net.Listener
	DNSUDP              net.PacketConn
	Ports               []net.Listener // of Config.Ports, in their order
}

// A Promise is the politeness that a crawler claims. The tracker checks it.
type Promise struct {
	// HostDelay, AddrDelay and SiteDelay are the minimum delays between the end of a response and the next request to
	// the same host, address or registered domain. Zero: no delay is checked.
	HostDelay, AddrDelay, SiteDelay time.Duration
	// CrawlDelay means that the Crawl-delay of a host's robots.txt counts too, once the file has been answered.
	CrawlDelay bool
	// Views is the longest time that a view may take: a page that a browser shows, with its files. Within a view the
	// delays do not apply, and after it the hosts rest. Zero: each request keeps the delays.
	Views time.Duration
	// Agent is the product token for which robots.txt is read. Empty means orbweaver.
	Agent string
	// None means that the crawler promises nothing. Then no violations and no gaps are counted.
	None bool
}

// A Site is one host. Its parts answer a request in this order: Rules, Robots, folders, Raw, Handler. If none answers,
// the response is a 404.
type Site struct {
	Host string
	// Addr is an address in 127.0.0.0/8. Empty: it is derived from the name. Hosts may share an address.
	Addr string
	// Robots is the text of /robots.txt. Empty: the other parts answer that path.
	Robots string
	// Rules make the site misbehave. The first one that applies answers.
	Rules []Rule
	// Raw answers with any bytes.
	Raw RawFunc
	// Handler answers the requests that the folders do not.
	Handler http.Handler
	// Scheme is "http" or "https" if the pages exist on that scheme only and the other one redirects to it. Empty: both
	// schemes serve the same pages.
	Scheme string
	// TLS and DNS are faults of the host's certificate and name.
	TLS TLSFault
	DNS DNSFault
}

// A site is a Site that is being served.
type site struct {
	Site
	addr    netip.Addr
	folders []mount
	rules   []ruleState
	robots  *Robots // the rules of its robots.txt for the promised agent; nil allows everything
}

// A Web is a test web, with its sockets.
type Web struct {
	cfg              Config
	sites            map[string]*site
	ca               *authority
	tls              *tls.Config
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
	ports            map[string]string // the ports that serve the ports of URLs
	ips              ipHosts
	front            *front
	shaper           *shaper
	shut             chan struct{} // closed at the shutdown, so that sleeping sites wake up
	shutOnce, closed sync.Once
}

// New opens the sockets of a Web, so that its addresses are known. Run serves on them. If the caller does not call Run,
// it must call Close.
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
	w.tls = w.tlsConfig()
	w.track = newTracker(cfg)
	w.ips = w.ipHosts()
	w.front, w.shaper = newFront(w), newShaper(cfg.Shape)
	if err := w.listen(); err != nil {
		w.Close()
		return nil, err
	}
	http, https := strconv.Itoa(w.HTTPPort()), strconv.Itoa(w.HTTPSPort())
	w.ports = map[string]string{"80": http, "443": https}
	for _, p := range w.cfg.Ports {
		to := http
		if p.Secure {
			to = https
		}
		w.ports[strconv.Itoa(int(p.Number))] = to
	}
	return w, nil
}

// addSites fills the table of sites and assigns an address to every host.
func (w *Web) addSites() error {
	var order []string
	add := func(s Site) (*site, error) {
		host := strings.ToLower(strings.TrimSuffix(s.Host, "."))
		if host == "" || strings.ContainsAny(host, ":/ ") {
			return nil, fmt.Errorf("site %q: the host name is not valid", s.Host)
		}
		if w.sites[host] != nil {
			return nil, fmt.Errorf("site %s: the host is configured twice", host)
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
		case isLoopback(h): // clients go there, whatever the name server says
			st.addr = netip.MustParseAddr(h)
		case w.cfg.Addresses > 0:
			st.addr = AddrOf("address "+strconv.Itoa(i%w.cfg.Addresses), nil)
		default:
			st.addr = AddrOf(h, used)
		}
		used[st.addr] = true
		// The longest prefix comes first, so that the most specific folder answers.
		slices.SortStableFunc(st.folders, func(a, b mount) int { return len(b.prefix) - len(a.prefix) })
		st.robots = ReadRobots(st.robotsText(), w.cfg.Promise.Agent)
	}
	return nil
}

// AddrOf derives a loopback address between 127.1.0.0 and 127.254.255.255 from a name. If that is used, it returns one
// of the next 64 or, if these are used as well, a used one.
func AddrOf(name string, used map[netip.Addr]bool) netip.Addr {
	h := fnv.New32a()
	io.WriteString(h, name)
	n := h.Sum32()
	for try := 0; ; try++ {
		a := netip.AddrFrom4([4]byte{127, byte(1 + (n>>16)%254), byte(n >> 8), byte(1 + n%254)})
		if !used[a] || try == 64 {
			return a
		}
		n++
	}
}

// robotsText returns the site's /robots.txt, if it is the same for every request; else nil.
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
	if s := w.cfg.Sockets; s != nil {
		w.plain, w.secure, w.dnsTCP, w.dnsUDP = s.HTTP, s.HTTPS, s.DNSTCP, s.DNSUDP
		return w.listenControl()
	}
	if w.plain, err = listenLoopback(w.cfg.HTTPPort, w.cfg.Routed); err != nil {
		return notOpened("http-port", strconv.Itoa(w.cfg.HTTPPort), err)
	}
	if w.secure, err = listenLoopback(w.cfg.HTTPSPort, w.cfg.Routed); err != nil {
		return notOpened("https-port", strconv.Itoa(w.cfg.HTTPSPort), err)
	}
	if err := w.listenControl(); err != nil {
		return err
	}
	// UDP and TCP of the name server must have the same port. The TCP port may be in use, so try several times.
	for range 20 {
		if w.dnsUDP, err = net.ListenPacket("udp", loopbackOnly(w.cfg.DNS)); err != nil {
			return notOpened("dns-listen", w.cfg.DNS, err)
		}
		if w.dnsTCP, err = net.Listen("tcp", w.dnsUDP.LocalAddr().String()); err == nil {
			return nil
		}
		w.dnsUDP.Close()
	}
	return notOpened("dns-listen", w.cfg.DNS, err)
}

func (w *Web) listenControl() (err error) {
	if w.control, err = net.Listen("tcp", loopbackOnly(w.cfg.Control)); err != nil {
		return notOpened("control", w.cfg.Control, err)
	}
	return nil
}

// notOpened is the error of a port that cannot be opened. It begins with the name of the setting.
func notOpened(setting, value string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s: the port is in use; choose another", setting, value)
	}
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s %s: this user may not open the port; choose one from 1024 on, or run testweb as root",
			setting, value)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok { // its text repeats the address
		err = op.Err
	}
	return fmt.Errorf("%s %s: %w", setting, value, err)
}

// loopbackOnly returns addr if it is a loopback address, and otherwise 127.0.0.1 with the same port.
func loopbackOnly(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "127.0.0.1:0"
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.IsLoopback() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// Run serves until ctx ends, and returns when every connection is closed. It may be called only once.
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
	ready := make(chan struct{}, 2) // one for each name server, so that neither blocks
	udp.NotifyStartedFunc = func() { ready <- struct{}{} }
	tcp.NotifyStartedFunc = udp.NotifyStartedFunc
	raws := &sync.WaitGroup{}
	live := &connSet{m: map[*conn]struct{}{}}
	srv.SetKeepAlivesEnabled(!w.cfg.CloseEach)
	f := w.front
	listeners := []*listener{{w.plain, w, false, raws, live}, {w.secure, w, true, raws, live}}
	for i, l := range w.more() {
		listeners = append(listeners, &listener{l, w, w.cfg.Ports[i].Secure, raws, live})
	}
	for _, l := range listeners {
		if w.cfg.Origin == nil {
			g.Go(func() error { return notClosed(srv.Serve(l)) })
			continue
		}
		f.loops.Add(1)
		g.Go(func() error { return notClosed(f.accept(l)) })
	}
	g.Go(func() error { return notClosed(srv.Serve(f)) })
	if w.cfg.Origin != nil {
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
		// Close the connections first, so that every handler sees its client leave, and then the servers have nothing
		// to wait for. Shutdown does not close the connections of raw sites, because the server has given them up.
		for _, l := range listeners {
			l.Listener.Close()
		}
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

// Start runs the Web in the background. stop ends it, waits, and returns the result of Run.
func (w *Web) Start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // so that Run can end even if stop is not called
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

// Close closes the sockets of a Web that does not run. Run calls it at its end.
func (w *Web) Close() {
	w.closed.Do(func() {
		for _, l := range append([]net.Listener{w.plain, w.secure, w.control, w.dnsTCP}, w.more()...) {
			if l != nil {
				l.Close()
			}
		}
		if w.dnsUDP != nil {
			w.dnsUDP.Close()
		}
		w.track.log.close()
	})
}

// more returns the sockets of Config.Ports, if there are any.
func (w *Web) more() []net.Listener {
	if w.cfg.Sockets == nil {
		return nil
	}
	return w.cfg.Sockets.Ports
}

// HTTPPort and HTTPSPort return the ports on which every address answers.
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

// CAPEM returns the certificate of the authority that signs the hosts' certificates, in PEM.
func (w *Web) CAPEM() []byte { return w.ca.pem }

// ConnectTo returns the values of the crawler's --connect-to flags that lead ports 80 and 443, and those of
// Config.Ports, to this Web.
func (w *Web) ConnectTo() []string {
	ports := []string{"80", "443"}
	for _, p := range w.cfg.Ports {
		ports = append(ports, strconv.Itoa(int(p.Number)))
	}
	var to []string
	for _, ip := range w.cfg.AddressHosts() { // in front, because the first rule that matches applies
		at, _ := w.Lookup(ip.String())
		for _, p := range ports {
			to = append(to, fmt.Sprintf("%s:%s:%s:%s", ip, p, at, w.ports[p]))
		}
	}
	for _, p := range ports {
		to = append(to, fmt.Sprintf(":%s::%s", p, w.ports[p]))
	}
	return to
}

// portOf returns the port in a Host field, if it is one of Config.Ports, else 0.
func (w *Web) portOf(field string) uint16 {
	if len(w.cfg.Ports) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(field[strings.LastIndexByte(field, ':')+1:], 10, 16)
	if err != nil || !slices.ContainsFunc(w.cfg.Ports, func(p Port) bool { return uint64(p.Number) == n }) {
		return 0
	}
	return uint16(n)
}

// Hosts returns the names of the hosts of Sites and Folders, sorted, without those of the Origin.
func (w *Web) Hosts() []string {
	return slices.Sorted(maps.Keys(w.sites))
}

// EachHost calls f for each name that the name server has an address for: those of Sites and Folders by name, then
// those of the Origin.
func (w *Web) EachHost(f func(host string, addr netip.Addr)) {
	each := func(host string, addr netip.Addr, fault DNSFault) {
		if _, err := netip.ParseAddr(host); fault == "" && err != nil {
			f(host, w.ips.reach(addr))
		}
	}
	for _, h := range w.Hosts() {
		each(h, w.sites[h].addr, w.sites[h].DNS)
	}
	if w.cfg.Origin == nil {
		return
	}
	for n := range w.cfg.Origin.Hosts() {
		if h := w.cfg.Origin.Host(n); w.sites[h.Name] == nil {
			each(h.Name, h.Addr, h.DNS)
		}
	}
}

// Lookup returns the address of a host, as the name server does. ok is false if there is no such host.
func (w *Web) Lookup(host string) (addr netip.Addr, ok bool) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if st := w.sites[name]; st != nil {
		return w.ips.reach(st.addr), true
	}
	if oh, ok := w.origin(name); ok {
		return w.ips.reach(oh.Addr), true
	}
	return netip.Addr{}, false
}

// origin returns the Origin's host of this name.
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

// DialContext connects to a host of this Web. addr is host:port; ports 80 and 443, and those of Config.Ports, lead to
// HTTPPort and HTTPSPort. It can be used as http.Transport.DialContext.
func (w *Web) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	a, ok := w.Lookup(host)
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	port = cmp.Or(w.ports[port], port)
	var d net.Dialer
	return d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
}
