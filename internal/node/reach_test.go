package node_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
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
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// recorder is a network that answers at every address and records the dialled ones.
type recorder struct {
	answer func(host, path string) string
	mu     sync.Mutex // guards dials
	dials  []string
	open   sync.WaitGroup
}

func (n *recorder) dialled(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials = append(n.dials, addr)
}

func (n *recorder) dial(_ context.Context, _, addr string) (net.Conn, error) {
	n.dialled(addr)
	here, there := net.Pipe()
	n.open.Go(func() {
		defer there.Close()
		n.serve(bufio.NewReader(there), there)
	})
	return here, nil
}

func (n *recorder) serve(br *bufio.Reader, w io.Writer) {
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := io.WriteString(w, n.answer(req.Host, req.URL.Path)); err != nil {
			return
		}
	}
}

// viaSOCKS dials a SOCKS proxy that answers instead of the servers (RFC 1928, without
// authentication).
func (n *recorder) viaSOCKS(_ context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	n.open.Go(func() {
		defer there.Close()
		br := bufio.NewReader(there)
		b := make([]byte, 16)
		io.ReadFull(br, b[:3])
		there.Write([]byte{5, 0})
		io.ReadFull(br, b[:4])
		size := map[byte]int{1: 4, 4: 16}[b[3]]
		if size == 0 {
			n.dialled("a name")
			return
		}
		io.ReadFull(br, b[:size])
		ip, _ := netip.AddrFromSlice(b[:size])
		port := make([]byte, 2)
		io.ReadFull(br, port)
		n.dialled(netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port)).String())
		there.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		n.serve(br, there)
	})
	return here, nil
}

func page(status int, field, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: text/html\r\n%sContent-Length: %d\r\n\r\n%s", status,
		field, len(body), body)
}

// reachConfig configures a crawl over n in memory. hosts are lines of a hosts file.
func reachConfig(t *testing.T, n *recorder, hosts string, seeds ...string) node.Config {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(hosts), 0o600); err != nil {
		t.Fatal(err)
	}
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
	n := &recorder{}
	n.answer = func(host, path string) string {
		switch {
		case host == "127.0.0.2" && path == "/robots.txt":
			return page(301, "Location: http://93.184.216.35/robots.txt\r\n", "")
		case path == "/robots.txt":
			return page(404, "", "")
		case path == "/away":
			return page(302, "Location: http://93.184.216.34/from-redirect\r\n", "")
		case host == "127.0.0.1" && path == "/":
			return page(200, "", `<a href="/away">1</a><a href="http://93.184.216.34/">2</a>
				<a href="http://named.example/">3</a><a href="http://[2606:2800:220:1::1]/">4</a>
				<a href="http://sent.localhost/">5</a><a href="http://here.example/">6</a>`)
		}
		return page(200, "", "")
	}
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
	n := &recorder{answer: func(_, path string) string {
		if path == "/robots.txt" {
			return page(404, "", "")
		}
		return page(200, "", `<a href="http://private.example/">1</a><a href="http://10.0.0.1/">2</a>`)
	}}
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
