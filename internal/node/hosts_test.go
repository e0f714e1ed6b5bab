package node_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

func hostsTable(t *testing.T, prefix string, pairs ...string) *sheet.Table {
	t.Helper()
	e := sheet.Entry{Prefix: prefix}
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		e.Settings = append(e.Settings, sheet.Setting{Key: key, Values: []string{value}})
	}
	tab := must.Get(sheet.New([]sheet.Entry{e}))(t)
	return tab
}

// SetHosts replaces the settings of hosts while the crawl runs: delay, page limit, scope, headers and what is kept.
func TestSetHosts(t *testing.T) {
	var mu sync.Mutex // guards asked
	asked := map[string]string{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path] = r.Header.Get("X-Phase")
		mu.Unlock()
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="/%d">x</a> <a href="/bad%d">x</a>`, n+1, n+1)
	}))
	defer web.Close()
	cfg := node.Config{Dir: filepath.Join(t.TempDir(), "crawl"), Seeds: []string{web.URL + "/0"},
		Hosts: hostsTable(t, "127.0.0.1", "delay=0", "header=X-Phase: one", "exclude=/bad")}
	cfg.Fetch.AllowPrivate = true
	cfg.Frontier.HostDelay, cfg.Frontier.IPDelay = time.Hour, 0
	var a *node.Agent
	cfg.Pages = visit.PagesFunc(func(_ context.Context, p *visit.Page) error {
		if p.Link.URL.Path() == "/3" {
			a.SetHosts(hostsTable(t, "127.0.0.1", "delay=1ms", "header=X-Phase: two", "exclude=/none", "keep=/4$",
				"host-page-limit=6"))
		}
		return nil
	})
	var err error
	if a, err = node.Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if d := a.HostDelay("127.0.0.1"); d != 0 {
		t.Errorf("a delay of %s, want none", d)
	}
	res, err := a.Run(t.Context())
	if err != nil || res.Stop != crawl.Finished {
		t.Fatalf("%s, %v", res.Stop, err)
	}
	for host, want := range map[string]time.Duration{"127.0.0.1": time.Millisecond, "127.0.0.2": time.Hour} {
		if d := a.HostDelay(host); d != want {
			t.Errorf("%s: a delay of %s, want %s", host, d, want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for path, want := range map[string]string{"/0": "one", "/3": "one", "/4": "two", "/5": "two"} {
		if asked[path] != want {
			t.Errorf("%s was asked for in phase %q, want %q", path, asked[path], want)
		}
	}
	if _, ok := asked["/6"]; ok {
		t.Error("a seventh page in spite of the limit")
	}
	log, err := os.ReadFile(filepath.Join(cfg.Dir, "logs", "crawl.log"))
	for path, want := range map[string]bool{"/bad1": false, "/bad3": false, "/bad5": true} {
		if ok := strings.Contains(string(log), path+" "); ok != want || err != nil {
			t.Errorf("%s accepted: %t, want %t; %v", path, ok, want, err)
		}
	}
	index, err := os.ReadFile(filepath.Join(cfg.Dir, "indexes", "index.cdxj"))
	if err != nil || !strings.Contains(string(index), "/4 ") || strings.Contains(string(index), "/5 ") {
		t.Errorf("index: %v\n%s", err, index)
	}
	if res.Summary.Unkept == 0 {
		t.Error("the summary counts no response that was not kept")
	}
}
