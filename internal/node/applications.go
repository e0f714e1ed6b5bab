package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize/english"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

const (
	// pagesBytes bounds the pages, and bodiesBytes the bodies, in the answer to another agent.
	pagesBytes  = 512 << 10
	bodiesBytes = 900 << 10
)

// PlanFeed implements operate.Apps.
func (o local) PlanFeed(urls []string) []operate.SeedPlan {
	plans := make([]operate.SeedPlan, len(urls))
	for i, text := range urls {
		u, err := o.a.typed(text)
		if err != nil {
			plans[i].Refused = err.Error()
			continue
		}
		plans[i].URL = u.URL.String()
		if !o.a.byPages() {
			plans[i].Agent = o.a.crawler.SeedAgent(u.URL.Host())
		}
	}
	return plans
}

// TakeFeed implements operate.Apps.
func (o local) TakeFeed(ctx context.Context, q *pb.TakeFeed) ([]*pb.Seed, error) {
	answer := make([]*pb.Seed, len(q.Urls))
	var urls []crawl.AppURL
	var at []int
	for i, f := range q.Urls {
		answer[i] = &pb.Seed{Url: f.Url, Result: fates[crawl.SeedExcluded]}
		u, err := o.a.typed(f.Url)
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
	done, err := o.a.crawler.Feed(ctx, o.a.orders.Applications.ID(q.Application), urls)
	if err != nil {
		return nil, o.notStarted(err)
	}
	for n, fate := range done {
		s := answer[at[n]]
		if s.Result = fates[fate]; fate == crawl.SeedExcluded {
			s.Text = "an exclude pattern of the application or of the crawl matches it"
		}
	}
	return answer, nil
}

// notStarted says what an agent waits for whose crawl has not begun.
func (o local) notStarted(err error) error {
	if w, ok := o.a.waiting(); ok && errors.Is(err, crawl.ErrNotRunning) {
		return fmt.Errorf("the crawl has not started: the agent waits for %s", w.For)
	}
	return err
}

// pagesLog identifies the agent's logs of pages: another directory has others.
func (a *Agent) pagesLog() string {
	if a.membership == nil {
		return "crawl"
	}
	return a.membership.who.Instance
}

// ListPages implements operate.Apps.
func (o local) ListPages(ctx context.Context, q *pb.ListPages) (*pb.ListedPages, error) {
	r := &pb.ListedPages{Log: o.a.pagesLog()}
	from := q.From
	if q.Log != r.Log {
		from = 0
	}
	wait := time.NewTimer(time.Duration(q.WaitMs) * time.Millisecond)
	defer wait.Stop()
	app := o.a.orders.Applications.ID(q.Application)
	for more := q.WaitMs > 0; ; {
		changed := o.a.crawler.DeliveriesChanged(app)
		list, err := o.a.crawler.Deliveries(app, from, int(max(q.Limit, 1)))
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

func fetchedPage(d crawl.Delivery) *pb.FetchedPage {
	p := &pb.FetchedPage{Url: d.URL, Status: int32(d.Status), Error: d.Error, Via: d.Via, Hops: d.Hops, Mime: d.MIME,
		Size: d.Size, Digest: d.Digest, File: d.File, Offset: d.Offset, Note: d.Note, Robots: d.Robots}
	if t, err := time.Parse(time.RFC3339Nano, d.Time); err == nil {
		p.Time = timestamppb.New(t)
	}
	return p
}

// ListBodies implements operate.Apps.
func (o local) ListBodies(ctx context.Context, q *pb.ListBodies) (*pb.ListedBodies, error) {
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
		if err := o.a.readBody(ctx, p, room, d); err != nil {
			d.Error = err.Error()
		}
		room -= int64(len(d.Data))
		r.Parts = append(r.Parts, d)
	}
	return r, nil
}

// readBody reads a part of an archived body, at most room bytes. After an error, d has what was read before.
func (a *Agent) readBody(ctx context.Context, p *pb.BodyPart, room int64, d *pb.BodyData) error {
	rec, f, err := a.openRecord(p)
	if err != nil {
		return err
	}
	defer f.Close()
	truncated := rec.Header.Value("WARC-Truncated")
	_, body, _, err := rec.Message(ctx)
	if err != nil {
		return warc.Unreadable(f.Name(), err)
	}
	if _, err := io.CopyN(io.Discard, body, max(p.Skip, 0)); err != nil {
		return warc.Unreadable(f.Name(), err)
	}
	most := min(max(p.Most, 0), room)
	b, err := io.ReadAll(io.LimitReader(body, most+1))
	d.More, d.Truncated = int64(len(b)) > most, truncated != ""
	d.Data = b[:min(int64(len(b)), most)]
	if err != nil {
		return warc.Unreadable(f.Name(), err)
	}
	return nil
}

// openRecord opens the record with the body that p names: of a revisit record, its original. The caller closes f.
func (a *Agent) openRecord(p *pb.BodyPart) (rec *warc.Record, f disk.File, err error) {
	line, url := warc.Line{File: p.File, Offset: p.Offset}, p.Url
	for original := false; ; original = true {
		if line.File == "" || original {
			found, err := a.parts.Archive.Find(url)
			if err != nil {
				return nil, nil, err
			}
			if len(found) == 0 {
				return nil, nil, fmt.Errorf("the archive of this agent does not have the content of %s", url)
			}
			line = found[len(found)-1] // of a revisit record: its original
		}
		if rec, f, err = warc.OpenRecord(a.fs, a.cfg.Dir, line); err != nil || rec.Type() != "revisit" || original {
			return rec, f, err
		}
		url = rec.Reference().URL
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
	}
}

// AcknowledgePages implements operate.Apps.
func (o local) AcknowledgePages(_ context.Context, q *pb.AcknowledgePages) error {
	if q.Log != o.a.pagesLog() {
		return fmt.Errorf("the agent has begun with a new directory since then")
	}
	return o.a.crawler.Acknowledge(o.a.orders.Applications.ID(q.Application), q.Position)
}

// uncollected says which pages applications have still to collect from this agent, such as "3 pages of shop".
func (a *Agent) uncollected() string {
	var all []string
	for _, s := range a.crawler.ApplicationStates() {
		if n := s.Unacknowledged; n > 0 {
			all = append(all, fmt.Sprintf("%s of %s", english.Plural(int(n), "page", ""), operate.NameOf(s.Name)))
		}
	}
	return english.WordSeries(all, "and")
}

// ApplicationStates implements operate.Apps.
func (o local) ApplicationStates() (states []*pb.NamedState) {
	for _, s := range o.a.crawler.ApplicationStates() {
		state := &pb.ApplicationState{Queued: s.Queued, Fetched: s.Fetched, Shared: s.Shared,
			Unacknowledged: s.Unacknowledged, Held: s.Held}
		states = append(states, &pb.NamedState{Application: operate.NameOf(s.Name), State: state})
	}
	return states
}
