package verbs

import (
	"context"
	"fmt"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
)

// pause keeps all agents from beginning requests.
var pause = Verb{
	Name: verbPause, Role: Operator, Undo: "resume", Done: "paused",
	Brief:     "Begin no more requests, also after a restart, until ctl resume.",
	UndoBrief: "Begin requests again after ctl pause.",
	Help: `No agent of the crawl begins a request. Open requests end as usual. The pause
also holds after a restart, and for agents that join later.

  orbweaver ctl pause --why "our line is needed"
  orbweaver ctl resume`,
	Note:  "No agent begins a request until the crawl is resumed. Open requests end as usual.",
	rules: pauseRules{},
}

// pauseRules are the rules of pauses.
type pauseRules struct{ usual }

func (pauseRules) subject(text string) (string, error) {
	if text != "" {
		return "", fmt.Errorf("a pause is about the whole crawl; leave out %.80q", text)
	}
	return "", nil
}

func (pauseRules) describe(o orders.Order, _ []orders.Order) string {
	if o.Off {
		return "resumed"
	}
	return "paused"
}

func (pauseRules) apply(ctx context.Context, f *Force, standing []orders.Order) error {
	return f.Crawl.Pause(ctx, Pauses(standing))
}

const verbPause = "pause"

// Pauses reports whether one of the orders that stand is a pause.
func Pauses(standing []orders.Order) bool {
	return slices.ContainsFunc(standing, func(o orders.Order) bool { return IsPause(&o) })
}

// IsPause reports whether an order pauses the crawl.
func IsPause(o *orders.Order) bool { return o.Verb == verbPause && !o.Off }
