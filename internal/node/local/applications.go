package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/output/moved"
)

const (
	// pagesBytes bounds the pages, and bodiesBytes the bodies, in the answer to another agent.
	pagesBytes  = 512 << 10
	bodiesBytes = 900 << 10
)

// Applications take URLs of applications and give them their pages. It implements operate.Apps.
type Applications struct {
	Definitions
	Defined Defined
	Log     string // identifies the agent's logs of pages: another directory has others
	Seeds   *Seeds
	// Archive implements operate.Archive.
	Archive *Archive
	Crawl   ApplicationCrawl
}

// Definitions checks what operators define.
type Definitions interface {
	// CheckApplication returns the error of a scope or of patterns.
	CheckApplication(a verbs.Application) error
}

// Defined knows the applications that the orders define.
type Defined interface {
	// ID returns the name under which the crawl knows an application.
	ID(name string) string
}

// An ApplicationCrawl crawls for applications, which it knows by their IDs.
type ApplicationCrawl interface {
	Feed(ctx context.Context, app string, urls []crawl.AppURL) ([]crawl.SeedFate, error)
	Collected
}

// Collected are the pages that applications collect.
type Collected interface {
	// Deliveries returns pages from a position on. Changed is closed when there are more.
	Deliveries(app string, from int64, max int) ([]applications.Delivery, error)
	Changed(app string) <-chan struct{}
	Acknowledge(ctx context.Context, app string, position int64) error
	States() []applications.State
}

func (o *Applications) PlanFeed(urls []string) []operate.SeedPlan {
	plans := make([]operate.SeedPlan, len(urls))
	for i, text := range urls {
		u, err := o.Seeds.typed(text)
		if err != nil {
			plans[i].Refused = err.Error()
			continue
		}
		plans[i].URL = u.URL.String()
		plans[i].Agent = o.Seeds.agentOf(u.URL)
	}
	return plans
}

func (o *Applications) TakeFeed(ctx context.Context, q *pb.TakeFeed) ([]*pb.Seed, error) {
	answer := make([]*pb.Seed, len(q.Urls))
	var urls []crawl.AppURL
	var at []int
	for i, f := range q.Urls {
		answer[i] = &pb.Seed{Url: f.Url, Result: fates[crawl.SeedExcluded]}
		u, err := o.Seeds.typed(f.Url)
		if err != nil {
			answer[i].Text = err.Error()
			continue
		}
		urls = append(urls, crawl.AppURL{URL: u.URL, Bare: u.Bare, Priority: uint8(min(max(f.Priority, 0), 15))})
		at = append(at, i)
	}
	if len(urls) == 0 {
		return answer, nil
	}
	done, err := o.Crawl.Feed(ctx, o.Defined.ID(q.Application), urls)
	if err != nil {
		return nil, notStarted(o.Seeds.Run, err)
	}
	for n, fate := range done {
		s := answer[at[n]]
		if s.Result = fates[fate]; fate == crawl.SeedExcluded {
			s.Text = "an exclude pattern of the application or of the crawl matches it"
		}
	}
	return answer, nil
}

func (o *Applications) ListPages(ctx context.Context, q *pb.ListPages) (*pb.ListedPages, error) {
	r := &pb.ListedPages{Log: o.Log}
	from := q.From
	if q.Log != r.Log {
		from = 0
	}
	wait := time.NewTimer(time.Duration(q.WaitMs) * time.Millisecond)
	defer wait.Stop()
	app := o.Defined.ID(q.Application)
	for more := q.WaitMs > 0; ; {
		changed := o.Crawl.Changed(app)
		list, err := o.Crawl.Deliveries(app, from, int(max(q.Limit, 1)))
		if err != nil {
			return nil, err
		}
		size := 0
		for _, d := range list {
			p := fetchedPage(d)
			if size += len(p.Url) + len(p.Via) + len(p.Mime) + 256; size > pagesBytes && len(r.Pages) > 0 {
				break
			}
			r.Pages, r.Positions = append(r.Pages, p), append(r.Positions, d.Position)
		}
		if len(r.Pages) > 0 || !more {
			return r, nil
		}
		select {
		case <-changed:
		case <-wait.C:
			more = false // look once more
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func fetchedPage(d applications.Delivery) *pb.FetchedPage {
	p := &pb.FetchedPage{Url: d.URL, Status: int32(d.Status), Error: d.Error, Via: d.Via, Hops: d.Hops, Mime: d.MIME,
		Size: d.Size, Digest: d.Digest, File: d.File, Offset: d.Offset, Note: d.Note, Robots: d.Robots}
	if t, err := time.Parse(time.RFC3339Nano, d.Time); err == nil {
		p.Time = timestamppb.New(t)
	}
	return p
}

func (o *Applications) ListBodies(ctx context.Context, q *pb.ListBodies) (*pb.ListedBodies, error) {
	r := &pb.ListedBodies{}
	room := int64(bodiesBytes)
	for _, p := range q.Parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if room == 0 {
			break
		}
		d := new(pb.BodyData)
		err := o.Archive.readBody(ctx, p, room, d)
		if _, later := errors.AsType[*moved.Unavailable](err); later { // the page waits until the store is back
			if len(r.Parts) == 0 {
				return nil, err
			}
			break
		}
		if err != nil {
			d.Error = err.Error()
		}
		room -= int64(len(d.Data))
		r.Parts = append(r.Parts, d)
	}
	return r, nil
}

func (o *Applications) AcknowledgePages(ctx context.Context, q *pb.AcknowledgePages) error {
	if q.Log != o.Log {
		return fmt.Errorf("the agent has begun with a new directory since then")
	}
	return o.Crawl.Acknowledge(ctx, o.Defined.ID(q.Application), q.Position)
}

// Uncollected says which pages applications have still to collect from an agent, such as "3 pages of shop".
func Uncollected(states []applications.State) string {
	var all []string
	for _, s := range states {
		if n := s.Unacknowledged; n > 0 {
			all = append(all, fmt.Sprintf("%s of %s", english.Plural(int(n), "page", ""), verbs.NameOf(s.Name)))
		}
	}
	return english.WordSeries(all, "and")
}

func (o *Applications) ApplicationStates() (states []*pb.NamedState) {
	for _, s := range o.Crawl.States() {
		state := &pb.ApplicationState{Queued: s.Queued, Fetched: s.Fetched, Shared: s.Shared,
			Unacknowledged: s.Unacknowledged, Held: s.Held}
		states = append(states, &pb.NamedState{Application: verbs.NameOf(s.Name), State: state})
	}
	return states
}
