package main

import (
	"errors"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// StrategyFlags choose the order of visits and the repeated visits.
type StrategyFlags struct {
	Strategy string `help:"${strategy}" enum:"bfs,focused,list,recrawl,walk" default:"bfs" placeholder:"KIND" group:"Strategy"`

	Topic []string `help:"${topic}" placeholder:"NAME" group:"Strategy"`
	Model string   `help:"${topic_model}" default:"topics" placeholder:"FILE" group:"Strategy"`

	RecrawlMin    time.Duration `help:"${recrawl_min}" default:"1h" placeholder:"D" group:"Strategy"`
	RecrawlMax    time.Duration `help:"${recrawl_max}" default:"720h" placeholder:"D" group:"Strategy"`
	RecrawlRounds int           `help:"${recrawl_rounds}" placeholder:"N" group:"Strategy"`
	Walkers       int           `help:"${walkers}" default:"16" placeholder:"N" group:"Strategy"`
	WalkSteps     int           `help:"${walk_steps}" default:"100000" placeholder:"N" group:"Strategy"`
	WalkJump      float64       `help:"${walk_jump}" default:"0.15" placeholder:"P" group:"Strategy"`
	WalkSeed      uint64        `help:"${walk_seed}" default:"1" placeholder:"N" group:"Strategy"`
}

// strategy returns the function with which the agent opens the strategy. It is nil for
// breadth-first, the agent's default.
func (c *CrawlCmd) strategy() (func(strategy.Place) (visit.Strategy, error), error) {
	bad := func(format string, args ...any) (func(strategy.Place) (visit.Strategy, error), error) {
		return nil, input.Errorf(format, args...)
	}
	switch {
	case c.RecrawlMin <= 0 || c.RecrawlMax < c.RecrawlMin:
		return bad("--recrawl-min %s and --recrawl-max %s: give durations above 0, the second not below the first",
			c.RecrawlMin, c.RecrawlMax)
	case c.RecrawlRounds < 0:
		return bad("--recrawl-rounds %d is negative; give 0 for no limit, or more", c.RecrawlRounds)
	case c.Walkers < 1 || c.Walkers > 10_000:
		return bad("--walkers %d: give a number from 1 to 10000", c.Walkers)
	case c.WalkSteps < 1:
		return bad("--walk-steps %d is too small; give at least 1", c.WalkSteps)
	case c.Strategy == "walk" && c.Depth >= 0:
		return bad("--depth %d has no effect with --strategy walk: bound the walks with --walk-steps and --walk-jump",
			c.Depth)
	case c.Strategy == "walk" && c.HostDepth >= 0:
		return bad("--host-depth %d has no effect with --strategy walk: bound the walks with --walk-steps and "+
			"--walk-jump", c.HostDepth)
	case c.SeedRoots && (c.Strategy == "walk" || c.Strategy == "list"):
		return bad("--seed-roots has no effect with --strategy %s, which alone says what is visited; "+
			"give bfs or recrawl", c.Strategy)
	case c.twoLevel() && (c.Strategy == "walk" || c.Strategy == "list"):
		return bad("--coverage two-level has no effect with --strategy %s, which alone says what is visited; "+
			"give bfs or recrawl", c.Strategy)
	case c.WalkJump < 0 || c.WalkJump > 1:
		return bad("--walk-jump %g: give a probability from 0 to 1", c.WalkJump)
	}
	switch c.Strategy {
	case "focused":
		return c.focused()
	case "list":
		return func(strategy.Place) (visit.Strategy, error) { return strategy.List{}, nil }, nil
	case "recrawl":
		cfg := strategy.RecrawlConfig{Min: c.RecrawlMin, Max: c.RecrawlMax, Rounds: c.RecrawlRounds}
		return func(at strategy.Place) (visit.Strategy, error) { return strategy.OpenRecrawl(at, cfg) }, nil
	case "walk":
		cfg := strategy.WalkConfig{Walkers: c.Walkers, Steps: c.WalkSteps, Jump: c.WalkJump, Seed: c.WalkSeed}
		if c.WalkJump == 0 {
			cfg.Jump = -1 // none
		}
		return func(at strategy.Place) (visit.Strategy, error) { return strategy.OpenWalk(at, cfg) }, nil
	}
	return nil, nil
}

// focused returns the function that opens a focused strategy. Without --topic the agents of a cluster want their own
// categories. focused reads the model at once, so that a mistake shows before the crawl has a directory.
func (c *CrawlCmd) focused() (func(strategy.Place) (visit.Strategy, error), error) {
	own := len(c.Topic) == 0
	if own && (c.Listen == "" || c.Partition != membership.PartitionTopic) {
		return nil, bad("--strategy focused needs the topics that you want; name some with --topic, such as --topic " +
			"science.\nWithout --topic it needs --listen and --partition topic: then each agent wants its own " +
			"categories")
	}
	model := modelFlag{Model: c.Model}
	m, err := model.classifier()
	if err != nil {
		return nil, err
	}
	cfg := strategy.FocusedConfig{Classifier: m, Topics: c.Topic}
	if own {
		cfg.Pages = strategy.Unmet{}
	}
	switch _, err := strategy.OpenFocused(cfg); {
	case errors.Is(err, strategy.ErrNoChances):
		return nil, bad("--model %s: %v; train one of another --kind", c.Model, err)
	case errors.Is(err, strategy.ErrTopic):
		return nil, bad("--topic %s: give some of the model's categories, but not all:\n%s", strings.Join(c.Topic, ","),
			strings.Join(m.Categories(), ", "))
	case err != nil:
		return nil, err
	}
	return func(at strategy.Place) (visit.Strategy, error) {
		cfg.Pages = at.Pages
		return strategy.OpenFocused(cfg)
	}, nil
}
