package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// newsFirst is a strategy of one's own: what is below /news/ comes first, what
// is below /old/ not at all.
type newsFirst struct{}

func (newsFirst) Follow(_ *crawl.Page, l *weburl.Link) crawl.Choice {
	switch path := l.URL.RequestURI(); {
	case strings.HasPrefix(path, "/news/"):
		l.Level = 1
	case strings.HasPrefix(path, "/old/"):
		return crawl.Drop
	}
	return crawl.Take
}

// A program adds a strategy of its own to a crawl.
func ExampleConfig_strategy() {
	site := func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Path)
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			fmt.Fprint(w, `<a href="/about">about</a> <a href="/old/1">1</a> <a href="/news/1">1</a>`)
		} else {
			fmt.Fprint(w, `<a href="/contact">contact</a> <a href="/news/2">2</a>`)
		}
	}
	err := crawlWith(http.HandlerFunc(site), func(strategy.Place) (crawl.Strategy, error) { return newsFirst{}, nil })
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// /robots.txt
	// /
	// /news/1
	// /news/2
	// /about
	// /contact
}

// crawlWith crawls a site that is served on this machine.
func crawlWith(site http.Handler, st func(strategy.Place) (crawl.Strategy, error)) error {
	web, err := testweb.New(testweb.Config{Sites: []testweb.Site{{Host: "site.example", Handler: site,
		Scheme: "http"}}})
	if err != nil {
		return err
	}
	stop := web.Start()
	defer stop()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	cfg := node.Config{Dir: filepath.Join(dir, "crawl"), Seeds: []string{"http://site.example/"},
		Contact: "you@example.org", Strategy: st}
	cfg.Frontier.HostDelay = -1 // it is our own machine
	cfg.DNS.Servers, cfg.DNS.HostsFile = []string{web.DNSAddr()}, "-"
	cfg.Fetch.ConnectTo, cfg.Fetch.AllowPrivate = web.ConnectTo(), true
	a, err := node.Open(cfg)
	if err != nil {
		return err
	}
	_, err = a.Run(context.Background())
	return errors.Join(err, a.Close())
}
