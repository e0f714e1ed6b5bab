package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// strategyFile has the name of the crawl's strategy.
const strategyFile = "state/strategy.txt"

// strategyName returns the name that --strategy uses for s. A strategy of another program has the
// name that its method StrategyName returns, or else its type.
func strategyName(s visit.Strategy) string {
	switch s.(type) {
	case nil, strategy.BreadthFirst:
		return "bfs"
	case *strategy.Focused:
		return "focused"
	case strategy.List:
		return "list"
	case *strategy.Recrawl:
		return "recrawl"
	case *strategy.Walk:
		return "walk"
	}
	if named, ok := s.(interface{ StrategyName() string }); ok {
		return named.StrategyName()
	}
	return fmt.Sprintf("%T", s)
}

// openStrategy opens the strategy. It refuses to continue a crawl with another strategy, which
// would not know what the first one has fetched.
func (a *Agent) openStrategy(seeds []weburl.URL) (err error) {
	if a.cfg.Strategy != nil {
		at := strategy.Place{FS: a.fs, Dir: a.dir("state", "strategy"), Seeds: seeds}
		if a.cfg.Cluster.ByPages() {
			at.Pages = member{a}
		}
		if a.parts.Strategy, err = a.cfg.Strategy(at); err != nil {
			return err
		}
		if c, ok := a.parts.Strategy.(io.Closer); ok {
			a.onClose(c.Close)
		}
	}
	b, err := disk.ReadFile(a.fs, a.dir(strategyFile), 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if begun, now := strings.TrimSpace(string(b)), strategyName(a.parts.Strategy); begun != now {
		return input.Errorf("{strategy} %s: the crawl in %s has the strategy %s and cannot change it; "+
			"start another crawl for %s", now, a.cfg.Dir, begun, now)
	}
	return nil
}
