package node

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A crawl keeps the strategy that it began with, whichever program opens it. A refused strategy
// changes nothing in the directory.
func TestCrawlKeepsItsStrategy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		cfg := newSmallWeb().config(t, mem)
		cfg.Effective = []byte("begun: so\n")
		if _, err := life(cfg); err != nil {
			t.Fatal(err)
		}
		files := func() map[string]string {
			m := map[string]string{}
			for _, name := range []string{"crawl.yaml", "state/seeds.txt", strategyFile} {
				b, err := disk.ReadFile(mem, "/crawl/"+name, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				m[name] = string(b)
			}
			return m
		}
		before := files()
		cfg.Resume, cfg.Effective, cfg.Seeds = true, []byte("now: otherwise\n"), []string{"http://b.example/new"}
		for name, open := range map[string]func(strategy.Place) (crawl.Strategy, error){
			"walk": func(at strategy.Place) (crawl.Strategy, error) {
				return strategy.OpenWalk(at, strategy.WalkConfig{Steps: 100})
			},
			"recrawl": func(at strategy.Place) (crawl.Strategy, error) {
				return strategy.OpenRecrawl(at, strategy.RecrawlConfig{Rounds: 1})
			},
			"list":            func(strategy.Place) (crawl.Strategy, error) { return strategy.List{}, nil },
			"node.ourOwnKind": func(strategy.Place) (crawl.Strategy, error) { return ourOwnKind{}, nil },
		} {
			cfg.Strategy = open
			_, err := Open(cfg)
			var bad *ConfigError
			if !errors.As(err, &bad) || bad.Text != "--strategy "+name+": the crawl in /crawl has the strategy "+
				"bfs and cannot change it; start another crawl for "+name {
				t.Errorf("%s over bfs: %v", name, err)
			}
			if diff := cmp.Diff(before, files()); diff != "" {
				t.Errorf("%s, refused (-before +after):\n%s", name, diff)
			}
		}
		// The same strategy under another name.
		cfg.Strategy = func(strategy.Place) (crawl.Strategy, error) { return strategy.BreadthFirst{}, nil }
		if _, err := life(cfg); err != nil {
			t.Error(err)
		}
		if got := files()["state/seeds.txt"]; !strings.Contains(got, "b.example/new") {
			t.Errorf("seeds %q", got)
		}
		// A crawl that is started again from nothing may have another strategy.
		cfg.Resume, cfg.Overwrite = false, true
		cfg.Strategy = func(at strategy.Place) (crawl.Strategy, error) {
			return strategy.OpenRecrawl(at, strategy.RecrawlConfig{Min: time.Minute, Max: time.Minute, Rounds: 1})
		}
		if _, err := life(cfg); err != nil {
			t.Error(err)
		}
		if got := files()[strategyFile]; got != "recrawl\n" {
			t.Errorf("strategy %q", got)
		}
	})
}

type ourOwnKind struct{ strategy.BreadthFirst }
