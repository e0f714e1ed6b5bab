package crawl

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A LinkTurn tells why a link waits, and from when on it may be fetched.
type LinkTurn struct {
	// State is one of
	//
	//	fetching  a visit is under way
	//	retry     it, or another URL of its origin, has failed, and waits for Due
	//	excluded  an Exclusion holds; Why says which
	//	blocked   the operator has blocked the host
	//	ready     the host may be asked now
	//	resting   the host must not be asked before Due, or while another host at its address is asked
	//	paused    likewise, after a 429, a 503 or failures
	//	resolving the address of the host is being looked up
	//	pooled    the link is in no host's queue yet
	State string
	// Due is the earliest time for the link; links of the host before it may still come first. Zero: not known.
	Due time.Time
	Why string
}

// Turns returns the turns of links, in their order. Safe for concurrent use while Run runs; ctx bounds the wait.
func (v *View) Turns(ctx context.Context, links []link.Link) (turns []LinkTurn, err error) {
	_, err = v.run.Command(ctx, "queue", "of the page", func(now time.Time) (string, error) {
		turns = v.turns(links, now)
		return "", nil
	})
	return turns, err
}

func (v *View) turns(links []link.Link, now time.Time) []LinkTurn {
	wanted := make(map[link.Key]time.Time, len(links))
	for i := range links {
		wanted[links[i].Key()] = time.Time{}
	}
	for d := range v.book.All() {
		if _, ok := wanted[d.Link.Key()]; ok {
			wanted[d.Link.Key()] = d.At
		}
	}
	for i := range links {
		if k := links[i].Key(); wanted[k].IsZero() {
			wanted[k] = v.origins.Of(links[i].URL).NextTry(now)
		}
	}
	hosts := map[string]frontier.Turn{}
	turns := make([]LinkTurn, len(links))
	for i := range links {
		l, t := &links[i], &turns[i]
		host := l.URL.Host()
		h, ok := hosts[host]
		if !ok {
			h = v.parts.Frontier.Turn(host, now)
			hosts[host] = h
		}
		retry := wanted[l.Key()]
		t.State, t.Due = h.State, h.Due
		switch {
		case h.Fetching == l.URL.String():
			t.State = "fetching"
		case v.gate.Excludes(l):
			t.State, t.Due, t.Why = "excluded", time.Time{}, v.gate.WhyExcluded(l)
		case v.gate.BarsKnown(host):
			t.State, t.Due = "blocked", time.Time{}
		case !retry.IsZero():
			t.State, t.Due = "retry", run.Later(retry, h.Due)
		case h.State == "fetching":
			t.State = "resting"
		case h.State == "unknown" || h.State == "empty":
			t.State, t.Due = "pooled", time.Time{}
		case h.State == "blocked": // held until other agents have told what they know of the host
			t.State, t.Due = "resting", time.Time{}
		}
	}
	return turns
}
