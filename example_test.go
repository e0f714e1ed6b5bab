package orbweaver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver"
)

// Crawl a site breadth-first and look at each page.
func Example() {
	site, dir := exampleSite()
	defer site.Close()
	defer os.RemoveAll(dir)

	result, err := orbweaver.Crawl(context.Background(), orbweaver.Options{
		Dir:   filepath.Join(dir, "crawl"),
		Seeds: []string{site.URL},
		OnPage: func(_ context.Context, p *orbweaver.Page) error {
			fmt.Println(p.Depth, p.Path(), p.Title)
			return nil
		},
		AllowPrivate: true, Delay: -1, // The site is on this machine.
	})
	fmt.Println(result.Pages, "pages,", result.Stop, err)
	// Output:
	// 0 / Home
	// 1 /about About
	// 1 /old/1 Old news 1
	// 1 /news/1 News 1
	// 2 /contact Contact
	// 2 /news/2 News 2
	// 6 pages, finished <nil>
}

// Crawl only the links that a function accepts.
func Example_ownScope() {
	site, dir := exampleSite()
	defer site.Close()
	defer os.RemoveAll(dir)

	_, err := orbweaver.Crawl(context.Background(), orbweaver.Options{
		Dir:   filepath.Join(dir, "crawl"),
		Seeds: []string{site.URL},
		Scope: orbweaver.Scope{
			Exclude: []string{`/old/`},
			Func: func(l orbweaver.Link) bool {
				return strings.Count(l.Path(), "/") > 1
			},
		},
		OnPage: func(_ context.Context, p *orbweaver.Page) error {
			fmt.Println(p.Path())
			return nil
		},
		AllowPrivate: true, Delay: -1, // The site is on this machine.
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// /
	// /news/1
	// /news/2
}

// Crawl the news first, and skip old pages.
func Example_ownStrategy() {
	site, dir := exampleSite()
	defer site.Close()
	defer os.RemoveAll(dir)

	newsFirst := func(_ *orbweaver.Page, l orbweaver.Link) orbweaver.Choice {
		switch {
		case strings.HasPrefix(l.Path(), "/news/"):
			return 1
		case strings.HasPrefix(l.Path(), "/old/"):
			return orbweaver.Drop
		}
		return orbweaver.Take
	}
	_, err := orbweaver.Crawl(context.Background(), orbweaver.Options{
		Dir:      filepath.Join(dir, "crawl"),
		Seeds:    []string{site.URL},
		Strategy: orbweaver.FollowFunc(newsFirst),
		OnPage: func(_ context.Context, p *orbweaver.Page) error {
			fmt.Println(p.Path())
			return nil
		},
		AllowPrivate: true, Delay: -1, // The site is on this machine.
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// /
	// /news/1
	// /news/2
	// /about
	// /contact
}

// Write pages to a sink of your own. A page is finished when it is written: after an error
// the next call continues with the page that could not be written.
func Example_ownSink() {
	site, dir := exampleSite()
	defer site.Close()
	defer os.RemoveAll(dir)

	room := 3
	save := func(w io.Writer, p *orbweaver.Page) error {
		if room == 0 {
			return errors.New("no room")
		}
		room--
		return json.NewEncoder(w).Encode(map[string]any{"path": p.Path(), "links": len(p.Links)})
	}
	options := orbweaver.Options{
		Dir:   filepath.Join(dir, "crawl"),
		Seeds: []string{site.URL},
		OnPage: func(_ context.Context, p *orbweaver.Page) error {
			return save(os.Stdout, p)
		},
		AllowPrivate: true, Delay: -1, // The site is on this machine.
	}
	_, err := orbweaver.Crawl(context.Background(), options)
	fmt.Println("a sink without room:", err != nil)
	room = 10
	_, err = orbweaver.Crawl(context.Background(), options)
	fmt.Println("the rest:", err)
	// Output:
	// {"links":3,"path":"/"}
	// {"links":2,"path":"/about"}
	// {"links":0,"path":"/old/1"}
	// a sink without room: true
	// {"links":1,"path":"/news/1"}
	// {"links":0,"path":"/contact"}
	// {"links":0,"path":"/news/2"}
	// the rest: <nil>
}

// exampleSite serves a small site on this machine, and makes a directory for a crawl of it.
func exampleSite() (*httptest.Server, string) {
	pages := map[string]string{
		"/":        `<title>Home</title><a href="/about">1</a> <a href="/old/1">2</a> <a href="/news/1">3</a>`,
		"/about":   `<title>About</title><a href="/contact">1</a> <a href="/news/1">2</a>`,
		"/old/1":   `<title>Old news 1</title>`,
		"/news/1":  `<title>News 1</title><a href="/news/2">1</a>`,
		"/news/2":  `<title>News 2</title>`,
		"/contact": `<title>Contact</title>`,
	}
	dir, err := os.MkdirTemp("", "orbweaver")
	if err != nil {
		panic(err)
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, page)
	})), dir
}
