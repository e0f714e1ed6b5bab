package local

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Seeds takes URLs for the running crawl. It implements operate.Seeds.
type Seeds struct {
	Contact bool // the crawl has a contact: it may visit other machines
	Walks   bool // the strategy is a walk
	ByPages bool // pages alone are divided among the agents
	Scope   *scope.Scope
	Crawl   SeedCrawl
	Copier  Copier // nil: this agent is alone
	Run     Run
}

// A SeedCrawl accepts seeds.
type SeedCrawl interface {
	// AddSeeds accepts seeds, and tells what has become of each.
	AddSeeds(ctx context.Context, seeds []crawl.NewSeed) ([]crawl.SeedFate, error)
	// SeedAgent returns the other agent that crawls a host; "": this one does.
	SeedAgent(host string) string
}

// A Copier receives links. When it returns nil, the loss of this agent and its disk does not lose them.
type Copier interface {
	Receive(ctx context.Context, links []link.Link, hops int) error
}

// newSeed reads a URL that is to be a seed of the running crawl. The error is for people.
func (o *Seeds) newSeed(text string) (crawl.NewSeed, error) {
	t, err := o.typed(text)
	switch {
	case err != nil:
		return crawl.NewSeed{}, err
	case len(t.URL.String()) > orders.MaxAbout:
		return crawl.NewSeed{}, fmt.Errorf("the URL has %d bytes; at most %d are possible while the crawl runs",
			len(t.URL.String()), orders.MaxAbout)
	}
	if o.Walks {
		return crawl.NewSeed{}, fmt.Errorf("the walkers jump to the start URLs of the crawl; begin another crawl")
	}
	return crawl.NewSeed{URL: t.URL, Bare: t.Bare}, nil
}

// typed reads a URL that the running crawl is to fetch. The error is for people.
func (o *Seeds) typed(text string) (input.TypedURL, error) {
	t, err := input.ParseURL("URL", text)
	if err == nil && !o.Contact && !input.IsLoopback(t.URL.Host()) {
		err = fmt.Errorf("the crawl has no contact: it visits only this machine")
	}
	return t, err
}

// agentOf returns the other agent that is to accept a URL; "": this one.
func (o *Seeds) agentOf(u weburl.URL) string {
	if o.ByPages {
		return ""
	}
	return o.Crawl.SeedAgent(u.Host())
}

func (o *Seeds) PlanSeeds(urls []string) []operate.SeedPlan {
	plans := make([]operate.SeedPlan, len(urls))
	us, at := make([]weburl.URL, 0, len(urls)), make([]int, 0, len(urls))
	for i, text := range urls {
		s, err := o.newSeed(text)
		if err == nil {
			if d := o.Scope.Judge(link.Link{URL: s.URL}); !d.In {
				err = fmt.Errorf("%s: an exclude pattern of the scope matches it", d.Reason)
			}
		}
		if err != nil {
			plans[i].Refused = err.Error()
			continue
		}
		plans[i].URL = s.URL.String()
		plans[i].Agent = o.agentOf(s.URL)
		us, at = append(us, s.URL), append(at, i)
	}
	for n, widens := range o.Scope.Widens(us) {
		plans[at[n]].Widens = widens
	}
	return plans
}

// fates are the words for what has become of a seed.
var fates = map[crawl.SeedFate]string{crawl.SeedNew: "new", crawl.SeedKnown: "known", crawl.SeedTaken: "taken",
	crawl.SeedExcluded: "refused"}

func (o *Seeds) TakeSeeds(ctx context.Context, urls []string) ([]*pb.Seed, error) {
	answer := make([]*pb.Seed, len(urls))
	var seeds []crawl.NewSeed
	var at []int
	for i, text := range urls {
		answer[i] = &pb.Seed{Url: text, Result: fates[crawl.SeedExcluded]}
		s, err := o.newSeed(text)
		if err != nil {
			answer[i].Text = err.Error()
			continue
		}
		seeds, at = append(seeds, s), append(at, i)
	}
	if len(seeds) == 0 {
		return answer, nil
	}
	done, err := o.Crawl.AddSeeds(ctx, seeds)
	if err != nil {
		return nil, notStarted(o.Run, err)
	}
	uncopied := o.copySeeds(ctx, seeds)
	for n, fate := range done {
		s := answer[at[n]]
		if s.Result = fates[fate]; fate == crawl.SeedExcluded {
			s.Text = "an exclude pattern of the scope matches it"
		} else if uncopied != nil {
			s.Text = fmt.Sprintf("accepted, and not copied to another agent yet; if this agent is lost with its disk "+
				"now, give it again: %v", uncopied)
		}
	}
	return answer, nil
}

// seedCopyTime bounds the wait for the copies of seeds. It leaves time to answer another agent's call.
const seedCopyTime = 5 * time.Second

// copySeeds returns nil when the loss of this agent and its disk does not lose the seeds, which it has accepted: it
// receives them once more like links from another agent, and such links are acknowledged when others have copies.
func (o *Seeds) copySeeds(ctx context.Context, seeds []crawl.NewSeed) error {
	if o.Copier == nil {
		return nil
	}
	links := make([]link.Link, len(seeds))
	for i, s := range seeds {
		links[i] = link.Link{URL: s.URL, Seed: s.URL.Host()}
		if s.Bare {
			links[i].SetBare()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, seedCopyTime)
	defer cancel()
	return o.Copier.Receive(ctx, links, 0)
}
