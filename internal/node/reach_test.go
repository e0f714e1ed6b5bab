package node_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// A recorder is a web that answers at every address. It records the dialled addresses.
type recorder struct {
	*textweb.Web
	mu    sync.Mutex // guards dials
	dials []string
	open  sync.WaitGroup
}

func (n *recorder) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dials = append(n.dials, addr)
	n.mu.Unlock()
	return n.Dialer("", func() bool { return false })(ctx, network, addr)
}

// viaSOCKS dials a SOCKS proxy (RFC 1928, without authentication). A name instead of an address ends the connection.
func (n *recorder) viaSOCKS(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	n.open.Go(func() {
		defer there.Close()
		b := make([]byte, 18)
		io.ReadFull(there, b[:3])
		there.Write([]byte{5, 0})
		io.ReadFull(there, b[:4])
		size := map[byte]int{1: 4, 4: 16}[b[3]]
		io.ReadFull(there, b[:size+2])
		ip, _ := netip.AddrFromSlice(b[:size])
		web, err := n.dial(ctx, "tcp", netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[size:])).String())
		if err != nil || size == 0 {
			return
		}
		defer web.Close()
		there.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		n.open.Go(func() { io.Copy(there, web) })
		io.Copy(web, there)
	})
	return here, nil
}

// reachConfig configures a crawl over n in memory. hosts are lines of a hosts file.
func reachConfig(t *testing.T, n *recorder, hosts string, seeds ...string) node.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts")
	must.Do(t, os.WriteFile(file, []byte(hosts), 0o600))
	t.Cleanup(n.open.Wait)
	cfg := node.Config{Dir: "/crawl", Seeds: seeds, FS: testdisk.NewMem()}
	cfg.DNS.HostsFile, cfg.DNS.Servers = file, []string{"127.0.0.1:1"}
	cfg.Fetch.Dial = n.dial
	cfg.Scope.Scope = scope.Any
	cfg.Frontier.HostDelay, cfg.Crawl.Retries = -1, -1
	return cfg
}

// Without a contact the crawl dials only loopback, wherever a seed, its robots.txt, a link, a
// redirect, a name or --connect-to leads.
func TestReachWithoutContact(t *testing.T) { synctest.Test(t, testReachWithoutContact) }

func testReachWithoutContact(t *testing.T) {
	n := &recorder{Web: textweb.Parse(t, `
		http://127.0.0.1/ /away http://93.184.216.34/ http://named.example/ http://[2606:2800:220:1::1]/ http://sent.localhost/ http://here.example/
		http://127.0.0.1/away 302 to=http://93.184.216.34/from-redirect
		http://127.0.0.2/
		http://127.0.0.2/robots.txt 301 to=http://93.184.216.35/robots.txt
		http://here.example/`)}
	cfg := reachConfig(t, n, "93.184.216.36 named.example\n127.0.0.3 here.example\n127.0.0.4 sent.localhost\n",
		"http://127.0.0.1/", "http://127.0.0.2/")
	cfg.Fetch.AllowPrivate = true
	cfg.Fetch.ConnectTo = []string{"sent.localhost::93.184.216.37:"}
	res, err := life(cfg)
	if err != nil || res.Stop != crawl.Finished {
		t.Fatalf("stop %s, %v", res.Stop, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, addr := range n.dials {
		if !strings.HasPrefix(addr, "127.") {
			t.Errorf("dialled %s", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:80", "127.0.0.2:80", "127.0.0.3:80"} {
		if !slices.Contains(n.dials, addr) {
			t.Errorf("%s was not dialled: %s", addr, n.dials)
		}
	}
}

// With a socks5 proxy the crawl still looks up names with its own name servers, and refuses private
// addresses.
func TestReachThroughSOCKS(t *testing.T) { synctest.Test(t, testReachThroughSOCKS) }

func testReachThroughSOCKS(t *testing.T) {
	n := &recorder{Web: textweb.Parse(t, "http://a.example/ http://private.example/ http://10.0.0.1/")}
	cfg := reachConfig(t, n, "93.184.216.34 a.example\n10.0.0.2 private.example\n", "http://a.example/")
	cfg.Contact = "ops@example.org"
	cfg.Fetch.Proxy, cfg.Fetch.Dial = &url.URL{Scheme: "socks5", Host: "127.0.0.1:1080"}, n.viaSOCKS
	res, err := life(cfg)
	if err != nil || res.Stop != crawl.Finished || res.Summary.Pages != 1 {
		t.Errorf("stop %s, %d pages, %v; want one page", res.Stop, res.Summary.Pages, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := strings.Join(slices.Compact(n.dials), " "); got != "93.184.216.34:80" {
		t.Errorf("the proxy was asked for %s, want 93.184.216.34:80", got)
	}
}
