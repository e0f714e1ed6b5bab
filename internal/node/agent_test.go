package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testcalls"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// A smallWeb is two hosts with pages that link to each other. /N links to /2N+1, /2N+2 and to the other host. Every
// fifth page is large, every sixth has the same content as others.
type smallWeb struct {
	*textweb.Web
	torn bool // a power failure may have taken the log's last lines
}

const smallPages = 12

func newSmallWeb(t testing.TB) *smallWeb {
	var text strings.Builder
	for i, u := range smallURLs() {
		text.WriteString(u)
		switch n := i % smallPages; {
		case n > 0 && n%6 == 0:
			text.WriteString(" same size=100") // worth a revisit record
		default:
			for _, k := range []int{2*n + 1, 2*n + 2} {
				if k < smallPages {
					fmt.Fprintf(&text, " /%d", k)
				}
			}
			fmt.Fprintf(&text, " http://b.example/ http://a.example/%d", (n+1)%(smallPages-1)+1)
			if n%5 == 4 {
				text.WriteString(" noise=20000")
			}
		}
		text.WriteString("\n")
	}
	return &smallWeb{Web: textweb.Parse(t, text.String())}
}

func smallURLs() (us []string) {
	for _, h := range []string{"a.example", "b.example"} {
		us = append(us, "http://"+h+"/")
		for i := 1; i < smallPages; i++ {
			us = append(us, fmt.Sprintf("http://%s/%d", h, i))
		}
	}
	return us
}

// since returns the requests after a time.
func (w *smallWeb) since(at time.Time) (rs []textweb.Request) {
	for _, r := range w.Told() {
		if w.Start.Add(r.At).After(at) {
			rs = append(rs, r)
		}
	}
	return rs
}

// asked reports whether a URL was requested.
func (w *smallWeb) asked(url string) bool {
	for _, r := range w.Told() {
		if r.URL == url {
			return true
		}
	}
	return false
}

func (w *smallWeb) config(t testing.TB, fs disk.FS) node.Config {
	hosts := filepath.Join(t.TempDir(), "hosts")
	must.Do(t, os.WriteFile(hosts, []byte("192.0.2.1 a.example\n192.0.2.2 b.example\n"), 0o644))
	cfg := node.Config{Dir: "/crawl", Seeds: []string{"http://a.example/"}, Contact: "ops@example.org", FS: fs}
	cfg.DNS.HostsFile, cfg.DNS.Servers = hosts, []string{"192.0.2.53"}
	cfg.Fetch.AllowPrivate, cfg.Fetch.Dial = true, w.Dialer("", func() bool { return false })
	cfg.Fetch.SpillBytes = 4096
	cfg.Scope.Scope = scope.Any
	cfg.Frontier.HostDelay, cfg.Frontier.MemoryBytes, cfg.Frontier.SegmentBytes = 100*time.Millisecond, 1, 1024
	cfg.Crawl.SnapshotBytes = 4096
	cfg.Archive.MaxBytes = 16 << 10
	return cfg
}

// life opens, runs and closes an agent. It returns the first error.
func life(cfg node.Config) (res node.Result, err error) {
	a, err := node.Open(cfg)
	if err != nil {
		return res, err
	}
	res, err = a.Run(context.Background())
	return res, errors.Join(err, a.Close())
}

// open opens an agent. close closes it.
func open(t *testing.T, cfg node.Config) (a *node.Agent, close func()) {
	t.Helper()
	a = must.Get(node.Open(cfg))(t)
	return a, func() {
		t.Helper()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// runApart runs fn beside the run of an agent, which it stops then.
func runApart(t *testing.T, cfg node.Config, fn func(a *node.Agent)) {
	t.Helper()
	a, closes := open(t, cfg)
	defer closes()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := a.Run(ctx); ended <- err }()
	time.Sleep(time.Millisecond)
	fn(a)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// calls makes the calls of a text to an agent's Operator.
func calls(t *testing.T, a *node.Agent, text string, args ...any) {
	t.Helper()
	testcalls.Run(t, fmt.Sprintf(text, args...), func(string) any { return a.Operator() })
}

// newLoop returns a machine in memory whose agents listen on loopback.
func newLoop() *simnet.Machine { return simnet.New(1).Machine(1, netip.MustParseAddr("127.0.0.1")) }

// serve serves the API of an agent. get sends a request with the token in its file.
func serve(t *testing.T, a *node.Agent, fs disk.FS) (get func(path string) (*http.Response, string)) {
	t.Helper()
	loop := newLoop()
	ln, _, err := loop.Listen("127.0.0.1:7480")
	must.Do(t, err)
	must.Do(t, a.Serve(ln, nil))
	var access node.APIAccess
	must.Do(t, json.Unmarshal([]byte(read(t, fs, crawldir.APIFile)), &access))
	client := &http.Client{Transport: &http.Transport{DialContext: loop.Dial, DisableKeepAlives: true}}
	return func(path string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+access.Addr+path, nil)
		must.Do(t, err)
		r.Header.Set("Authorization", "Bearer "+access.Token)
		res := must.Get(client.Do(r))(t)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return res, string(text)
	}
}

// read returns a file of the crawl directory.
func read(t *testing.T, fs disk.FS, name string) string {
	t.Helper()
	b := must.Get(disk.ReadFile(fs, "/crawl/"+name, 1<<30))(t)
	return string(b)
}

// write writes a file that no crawl directory has.
func write(t *testing.T, fs disk.FS, name, text string) {
	t.Helper()
	must.Do(t, errors.Join(fs.MkdirAll(filepath.Dir(name), 0o755), disk.WriteFile(fs, name, []byte(text))))
}
