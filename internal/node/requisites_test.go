package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// A bareCrawl is a finished crawl of two pages with an image each, one of them on another host, and no image.
func bareCrawl(t *testing.T) (web *textweb.Web, mem *testdisk.Mem, cfg node.Config) {
	t.Helper()
	web = textweb.Parse(t, "http://a.example/ /1 img:/i.png\nhttp://a.example/1 img:http://b.example/j.png\n"+
		"http://a.example/i.png\nhttp://b.example/j.png\n")
	mem = testdisk.NewMem()
	cfg = (&smallWeb{Web: web}).config(t, mem)
	cfg.Scope.Scope = scope.Host
	cfg.Effective = []byte("requisites: false\n")
	res := must.Get(life(cfg))(t)
	if res.Summary.Pages != 2 || res.Summary.Files != 0 {
		t.Fatalf("%d pages and %d files", res.Summary.Pages, res.Summary.Files)
	}
	cfg.Resume, cfg.Crawl.Requisites, cfg.Effective = true, true, []byte("requisites: true\n")
	return web, mem, cfg
}

// whole checks that both images have come, once each.
func whole(t *testing.T, web *textweb.Web, res node.Result) {
	t.Helper()
	if res.Summary.Pages != 2 || res.Summary.Files != 2 || res.Stop != crawl.Finished {
		t.Errorf("%d pages, %d files, %s", res.Summary.Pages, res.Summary.Files, res.Stop)
	}
	times := map[string]int{}
	for _, r := range web.Told() {
		times[r.URL]++
	}
	for _, u := range []string{"http://a.example/", "http://a.example/1", "http://a.example/i.png",
		"http://b.example/j.png"} {
		if times[u] != 1 {
			t.Errorf("%s was requested %d times", u, times[u])
		}
	}
}

// A run that is told to stop while it reads the archive repairs nothing. The next one does.
func TestRepairStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem, cfg := bareCrawl(t)
		var notes []string
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Note = func(text string) {
			if notes = append(notes, text); strings.HasPrefix(text, "reads the archive") {
				cancel()
			}
		}
		a := must.Get(node.Open(cfg))(t)
		res, err := a.Run(ctx)
		if err = errors.Join(err, a.Close()); err != nil || res.Stop != crawl.Signal || len(notes) != 1 {
			t.Errorf("%s, %v, %q", res.Stop, err, notes)
		}
		if got := read(t, mem, "crawl.yaml"); got != "requisites: false\n" {
			t.Errorf("the marker says %q", got)
		}
		cfg.Note = nil
		whole(t, web, must.Get(life(cfg))(t))
		if got := read(t, mem, "crawl.yaml"); got != "requisites: true\n" {
			t.Errorf("the marker says %q", got)
		}
		before := len(web.Told())
		must.Get(life(cfg))(t)
		if n := len(web.Told()); n != before {
			t.Errorf("%d requests after the repair", n-before)
		}
	})
}

// A run that is the first one to follow sitemaps says when it finds them. Later runs do not say so again.
func TestSitemapsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, cfg := bareCrawl(t)
		cfg.Effective, cfg.Crawl.Requisites = []byte("requisites: false\nsitemaps: false\n"), false
		said := 0
		cfg.Note = func(text string) {
			if strings.Contains(text, "sitemaps") {
				said++
			}
		}
		must.Get(life(cfg))(t)
		cfg.Effective, cfg.Crawl.Sitemaps.Follow = []byte("requisites: false\nsitemaps: true\n"), true
		for run := range 3 {
			if must.Get(life(cfg))(t); said != 1 {
				t.Errorf("run %d: said %d times", run, said)
			}
		}
	})
}

// Whenever the agent is killed, the next run completes the repair.
func TestRepairKilled(t *testing.T) {
	killed := 0
	for n, ended := int64(1), false; !ended; n += 3 {
		synctest.Test(t, func(t *testing.T) {
			web, mem, cfg := bareCrawl(t)
			dead := errors.New("killed")
			cfg.FS = testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
				if c.Change >= n {
					return testdisk.Fault{Err: dead}
				}
				return testdisk.Fault{}
			})
			a, err := node.Open(cfg)
			if err == nil {
				_, err = a.Run(t.Context())
				err = errors.Join(err, a.Close())
			}
			if ended = err == nil; !ended {
				killed++
				if !errors.Is(err, dead) {
					t.Fatal(err)
				}
			}
			cfg.FS = mem
			res := must.Get(life(cfg))(t)
			if res.Summary.Pages != 2 || res.Summary.Files != 2 || res.Stop != crawl.Finished {
				t.Errorf("killed at operation %d: %s", n, fmt.Sprint(res.Summary.Pages, res.Summary.Files, res.Stop))
			}
			for _, u := range []string{"http://a.example/i.png", "http://b.example/j.png"} {
				if !(&smallWeb{Web: web}).asked(u) {
					t.Errorf("killed at operation %d: %s is missing", n, u)
				}
			}
		})
	}
	if killed < 10 {
		t.Errorf("only %d kills", killed)
	}
}
