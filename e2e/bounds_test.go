package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A forest is a web of three hosts. On each, page k links to the pages 3k+1 to 3k+3, and no page links to the root.
// Page 1 of a host links to page 0 of the next one.
type forest struct {
	mu    sync.Mutex // guards asked and wanted
	asked int
	// reached gets a value when as many requests have come as wanted. From then on no request is answered until
	// more are wanted. Zero: all are answered.
	wanted  int
	reached chan struct{}
}

var forestHosts = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}

func (f *forest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	if f.asked++; f.asked == f.wanted {
		f.reached <- struct{}{}
	}
	holds := f.wanted > 0 && f.asked >= f.wanted
	f.mu.Unlock()
	if holds {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/html")
	var k int
	if r.URL.Path == "/" {
		fmt.Fprint(w, "the root")
		return
	}
	if _, err := fmt.Sscanf(r.URL.Path, "/p/%d", &k); err != nil {
		http.NotFound(w, r)
		return
	}
	for i := range 3 {
		fmt.Fprintf(w, `<a href="/p/%d">x</a> `, 3*k+1+i)
	}
	host, port, _ := strings.Cut(r.Host, ":")
	if next := slices.Index(forestHosts, host) + 1; k == 1 && next < len(forestHosts) {
		fmt.Fprintf(w, `<a href="http://%s:%s/p/0">x</a>`, forestHosts[next], port)
	}
}

// awaits makes the forest say when n requests have come from now on.
func (f *forest) awaits(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.wanted = 0, n
}

// TestHostBounds: --host-page-limit, --host-depth and --seed-roots are exact, however often the crawl is killed.
func TestHostBounds(t *testing.T) {
	weighs(t, 1)
	tree := []string{"/"}
	for k := range 13 { // 1 + 3 + 9
		tree = append(tree, fmt.Sprintf("/p/%d", k))
	}
	for name, c := range map[string]struct {
		flags []string
		check func(host string, pages []string) bool
	}{
		"pages": {[]string{"--host-page-limit", "10"},
			func(_ string, pages []string) bool { return len(pages) == 10 && !slices.Contains(pages, "/") }},
		"depth": {[]string{"--host-depth", "2", "--seed-roots"},
			func(_ string, pages []string) bool { return slices.Equal(pages, slices.Sorted(slices.Values(tree))) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := &forest{reached: make(chan struct{}, 1)}
			web := httptest.NewUnstartedServer(f)
			web.Listener.Close()
			var err error
			if web.Listener, err = net.Listen("tcp4", "0.0.0.0:0"); err != nil {
				t.Fatal(err)
			}
			web.Start()
			defer web.Close()
			seed := fmt.Sprintf("http://%s:%d/p/0", forestHosts[0], web.Listener.Addr().(*net.TCPAddr).Port)
			dir := filepath.Join(t.TempDir(), "crawl")
			args := append([]string{"crawl", "--quiet", "--dir", dir, "--scope", "any", "--allow-private", "--delay",
				"10ms", seed}, c.flags...)
			kills := 0
			for range 4 {
				f.awaits(7)
				p := start(t, args...)
				select {
				case <-f.reached:
				case <-p.done:
					t.Fatalf("the crawl is over after %d kills\n%s", kills, tail(p.out.String()))
				}
				if _, killed := p.kill(); killed {
					kills++
				}
				if args = []string{"crawl", "--quiet", "--resume", "--dir", dir}; kills == 0 {
					t.Fatal("the crawl ended by itself")
				}
			}
			f.awaits(0)
			crawl(context.Background(), t, args...).must(t, 0)
			log, err := os.ReadFile(filepath.Join(dir, "logs", "crawl.log"))
			if err != nil {
				t.Fatal(err)
			}
			pages := map[string]map[string]bool{}
			for line := range strings.Lines(string(log)) {
				if l := strings.Fields(line); l[1] == "200" {
					host, path, _ := strings.Cut(strings.TrimPrefix(l[3], "http://"), "/")
					host, _, _ = strings.Cut(host, ":")
					if pages[host] == nil {
						pages[host] = map[string]bool{}
					}
					pages[host]["/"+path] = true
				}
			}
			for _, host := range forestHosts {
				if all := slices.Sorted(maps.Keys(pages[host])); !c.check(host, all) {
					t.Errorf("%s: %d pages, %v", host, len(all), all)
				}
			}
		})
	}
}
