package node_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A crawl keeps the strategy that it began with, whichever program opens it. A refused strategy
// changes nothing in the directory.
func TestCrawlKeepsItsStrategy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		cfg := newSmallWeb(t).config(t, mem)
		cfg.Effective = []byte("begun: so\n")
		runs := func() {
			t.Helper()
			if _, err := life(cfg); err != nil {
				t.Error(err)
			}
		}
		runs()
		files := func() map[string]string {
			m := map[string]string{}
			for _, name := range []string{"crawl.yaml", "state/seeds.txt", "state/strategy.txt"} {
				m[name] = read(t, mem, name)
			}
			return m
		}
		before := files()
		cfg.Resume, cfg.Effective, cfg.Seeds = true, []byte("now: otherwise\n"), []string{"http://b.example/new"}
		recrawl := func(at strategy.Place) (visit.Strategy, error) {
			return strategy.OpenRecrawl(at, strategy.RecrawlConfig{Min: time.Minute, Max: time.Minute, Rounds: 1})
		}
		for name, open := range map[string]func(strategy.Place) (visit.Strategy, error){
			"walk": func(at strategy.Place) (visit.Strategy, error) {
				return strategy.OpenWalk(at, strategy.WalkConfig{Steps: 100})
			},
			"recrawl":              recrawl,
			"list":                 func(strategy.Place) (visit.Strategy, error) { return strategy.List{}, nil },
			"node_test.ourOwnKind": func(strategy.Place) (visit.Strategy, error) { return ourOwnKind{}, nil },
		} {
			cfg.Strategy = open
			_, err := node.Open(cfg)
			if bad, ok := errors.AsType[*input.ConfigError](err); !ok || bad.Error() != "strategy "+name+
				": the crawl in /crawl has the strategy bfs and cannot change it; start another crawl for "+name {
				t.Errorf("%s over bfs: %v", name, err)
			}
			if diff := cmp.Diff(before, files()); diff != "" {
				t.Errorf("%s, refused (-before +after):\n%s", name, diff)
			}
		}
		// The same strategy under another name.
		cfg.Strategy = func(strategy.Place) (visit.Strategy, error) { return strategy.BreadthFirst{}, nil }
		runs()
		if got := files()["state/seeds.txt"]; !strings.Contains(got, "b.example/new") {
			t.Errorf("seeds %q", got)
		}
		// A crawl that is started again from nothing may have another strategy.
		cfg.Resume, cfg.Overwrite, cfg.Strategy = false, true, recrawl
		runs()
		if got := files()["state/strategy.txt"]; got != "recrawl\n" {
			t.Errorf("strategy %q", got)
		}
	})
}

type ourOwnKind struct{ strategy.BreadthFirst }
