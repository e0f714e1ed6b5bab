package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A crawl by recrawl is killed several times. It visits each page as often as configured, politely,
// and archives unchanged pages as revisits.
func TestRecrawlKilled(t *testing.T) {
	weighs(t, 1)
	const (
		host   = "again.example"
		pages  = 12
		rounds = 6
		delay  = 8 * time.Millisecond
	)
	began := time.Now()
	plain := site(host, pages)
	// Pages with an odd number never change and have validators. The others change every 700 ms.
	h := func(rw http.ResponseWriter, req *http.Request) {
		if last := req.URL.Path[len(req.URL.Path)-1]; last%2 == 1 && last != '/' {
			rw.Header().Set("ETag", `"same"`)
			if req.Header.Get("If-None-Match") == `"same"` {
				rw.WriteHeader(http.StatusNotModified)
				return
			}
		}
		plain.ServeHTTP(rw, req)
		if !strings.HasPrefix(req.URL.Path, "/private") {
			fmt.Fprintf(rw, "<p>%d\n", time.Since(began)/(700*time.Millisecond))
		}
	}
	web := serve(t, testweb.Config{
		Sites:   []testweb.Site{{Host: host, Handler: http.HandlerFunc(h), Scheme: "http"}},
		Promise: testweb.Promise{HostDelay: delay}, KeepURLs: 1 << 10,
	})
	dir := filepath.Join(t.TempDir(), "crawl")
	args := flags(t, web, dir, "--delay", delay.String(), "--quiet", "--strategy", "recrawl", "--recrawl-min", "200ms",
		"--recrawl-max", "800ms", "--recrawl-rounds", fmt.Sprint(rounds), "http://"+host+"/")
	resume := []string{"crawl", "--resume", "--dir", dir, "--quiet"}
	for i, requests := range []int64{20, 45, 70} {
		p := start(t, args...)
		for web.Report().Requests < requests {
			if !p.lives(5 * time.Millisecond) {
				t.Fatalf("run %d ended by itself, with %d\n%s", i, p.code(), tail(p.out.String()))
			}
		}
		if _, killed := p.kill(); !killed {
			t.Fatalf("run %d ended by itself", i)
		}
		args = resume
	}
	crawl(context.Background(), t, resume...).must(t, 0)
	noViolations(t, web)
	verify(t, dir)
	s := summary(t, dir)
	num := func(name string) int { n, _ := s[name].(float64); return int(n) }
	if num("revisits") != pages*rounds || num("unchanged")+num("changed") != pages*rounds ||
		num("unchanged") < pages/2*rounds || num("changed") == 0 {
		t.Errorf("%d visits again, %d unchanged, %d changed; want %d", num("revisits"), num("unchanged"),
			num("changed"), pages*rounds)
	}
	for u, n := range indexed(t, dir) {
		private := strings.Contains(u, "/private/") || strings.HasSuffix(u, "/robots.txt")
		if !private && n < 1+rounds {
			t.Errorf("%d captures of %s, want %d and what kills repeated", n, u, 1+rounds)
		}
	}
}
