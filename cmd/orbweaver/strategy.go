package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/agent"
	"github.com/orbweaver/orbweaver/crawl"
	"github.com/orbweaver/orbweaver/strategy"
)

// StrategyFlags say which page is fetched next, and which again.
type StrategyFlags struct {
	Strategy      string        `help:"bfs: every link, breadth-first. list: the seeds alone, and where they redirect to. recrawl: breadth-first, and each page again as often as it changes. walk: random walks, which sample pages by their PageRank." enum:"bfs,list,recrawl,walk" default:"bfs" placeholder:"KIND" group:"Which page next"`
	RecrawlMin    time.Duration `help:"With recrawl: visit a page again after D at the earliest, however often it changes." default:"1h" placeholder:"D" group:"Which page next"`
	RecrawlMax    time.Duration `help:"With recrawl: visit a page again after D at the latest, even if it never changes." default:"720h" placeholder:"D" group:"Which page next"`
	RecrawlRounds int           `help:"With recrawl: visit a page again N times, then no more; 0 is for ever, until another limit or Ctrl-C." placeholder:"N" group:"Which page next"`
	Walkers       int           `help:"With walk: so many walk side by side." default:"16" placeholder:"N" group:"Which page next"`
	WalkSteps     int           `help:"With walk: end after N steps, all walkers together." default:"100000" placeholder:"N" group:"Which page next"`
	WalkJump      float64       `help:"With walk: the probability that a step leads back to a seed." default:"0.15" placeholder:"P" group:"Which page next"`
	WalkSeed      uint64        `help:"With walk: another number, other walks; the same, the same." default:"1" placeholder:"N" group:"Which page next"`
}

// strategy turns the flags into what the agent opens; nil is breadth-first.
func (f *StrategyFlags) strategy(depth int) (func(strategy.Place) (crawl.Strategy, error), error) {
	bad := func(format string, args ...any) (func(strategy.Place) (crawl.Strategy, error), error) {
		return nil, &agent.ConfigError{Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case f.RecrawlMin <= 0 || f.RecrawlMax < f.RecrawlMin:
		return bad("--recrawl-min %s and --recrawl-max %s: above 0, and the second not below the first", f.RecrawlMin, f.RecrawlMax)
	case f.RecrawlRounds < 0:
		return bad("--recrawl-rounds %d is negative; 0 is no limit", f.RecrawlRounds)
	case f.Walkers < 1 || f.Walkers > 10_000:
		return bad("--walkers %d: from 1 to 10000", f.Walkers)
	case f.WalkSteps < 1:
		return bad("--walk-steps %d: at least 1", f.WalkSteps)
	case f.Strategy == "walk" && depth >= 0:
		return bad("--depth %d: a walk has no depth; --walk-steps bounds it, and --walk-jump how far it leads", depth)
	case f.WalkJump < 0 || f.WalkJump > 1:
		return bad("--walk-jump %g: a probability, from 0 to 1", f.WalkJump)
	}
	switch f.Strategy {
	case "list":
		return func(strategy.Place) (crawl.Strategy, error) { return strategy.List{}, nil }, nil
	case "recrawl":
		cfg := strategy.RecrawlConfig{Min: f.RecrawlMin, Max: f.RecrawlMax, Rounds: f.RecrawlRounds}
		return func(at strategy.Place) (crawl.Strategy, error) { return strategy.OpenRecrawl(at, cfg) }, nil
	case "walk":
		cfg := strategy.WalkConfig{Walkers: f.Walkers, Steps: f.WalkSteps, Jump: f.WalkJump, Seed: f.WalkSeed}
		if f.WalkJump == 0 {
			cfg.Jump = -1 // none
		}
		return func(at strategy.Place) (crawl.Strategy, error) { return strategy.OpenWalk(at, cfg) }, nil
	}
	return nil, nil
}

// foreign refuses the flags of another strategy: they would have no effect.
// begun is the file of a crawl that goes on, whose strategy is judged elsewhere.
func (f *StrategyFlags) foreign(k *kong.Context, told *settings, begun string) error {
	for _, flag := range k.Selected().Flags {
		of := ""
		switch {
		case strings.HasPrefix(flag.Name, "recrawl-"):
			of = "recrawl"
		case strings.HasPrefix(flag.Name, "walk"):
			of = "walk"
		}
		typed := slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag == flag && !p.Resolved })
		if of == "" || of == f.Strategy || !typed && strings.HasPrefix(told.values[flag.Name].from, begun+",") {
			continue
		}
		usual := reflect.New(flag.Target.Type()).Elem()
		if flag.Default != "" {
			if err := flag.Parse(kong.Scan().PushTyped(flag.Default, kong.FlagValueToken), usual); err != nil {
				return fmt.Errorf("--%s: default %q: %w", flag.Name, flag.Default, err)
			}
		}
		if v := flag.Target.Interface(); v != usual.Interface() {
			return &agent.ConfigError{Text: fmt.Sprintf("--%s %v has no effect with --strategy %s: leave it out, or give --strategy %s", flag.Name, v, f.Strategy, of)}
		}
	}
	return nil
}
