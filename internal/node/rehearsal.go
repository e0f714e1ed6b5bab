package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Rehearsal is a crawl that is checked and not started. It writes nothing, and requests only
// robots.txt. One goroutine owns it.
type Rehearsal struct {
	// Seeds are the seeds of the crawl, with those of earlier runs.
	Seeds []weburl.URL
	Scope *scope.Scope
	// UserAgent is the header of requests, and Token the product name whose robots.txt groups apply.
	UserAgent, Token string
	// Exists reports that the directory holds a crawl. Waiting is then the number of its URLs that
	// are not finished, unless the crawl is overwritten.
	Exists  bool
	Waiting int64

	agent *Agent
	addr  string // of the agent in its cluster
	robot *robots.Cache
	looks map[string]look      // by origin: what the last request for robots.txt brought
	last  map[string]time.Time // the end of the last request to a host, an address or a domain
}

// Rehearse checks what Open checks, and changes nothing in cfg.Dir. The caller closes the
// Rehearsal. The errors are those of Open.
func Rehearse(cfg Config) (_ *Rehearsal, err error) {
	cfg.FS = disk.OS
	a, seeds, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	r := &Rehearsal{agent: a, looks: map[string]look{}, last: map[string]time.Time{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if err := a.inspect(); err != nil {
		return nil, crawldir.Denied(a.cfg.Dir, err)
	}
	if r.Exists, err = crawldir.HoldsCrawl(nil, cfg.Dir); err != nil {
		return nil, err
	}
	dirs := []string{a.dir()}
	if r.Exists {
		for _, d := range layout {
			dirs = append(dirs, a.dir(d))
		}
	}
	for _, d := range dirs {
		if err := disk.Writable(d); err != nil {
			return nil, crawldir.Denied(a.cfg.Dir, fmt.Errorf("crawl directory: %w", err))
		}
	}
	if cfg.Resume {
		if seeds, err = a.allSeeds(seeds); err != nil {
			return nil, &crawldir.StateError{Err: crawldir.Denied(a.cfg.Dir, err)}
		}
		if r.Waiting, err = crawl.Waiting(cfg.Dir); err != nil {
			return nil, &crawldir.StateError{Err: crawldir.Denied(a.cfg.Dir, err)}
		}
		if cfg.Cluster == nil {
			if err := a.prepareOthers(nil); err != nil {
				return nil, err
			}
		}
	}
	if c := cfg.Cluster; c != nil {
		if r.addr, err = c.TryPort(a.fs, a.cfg.Clock); err != nil {
			return nil, err
		}
	}
	if a.cfg.Scope.Today.IsZero() {
		a.cfg.Scope.Today = a.now()
	}
	a.sheets.Set(cfg.Hosts)
	a.cfg.Scope.Sheets = &a.sheets
	if r.Scope, err = scope.New(a.cfg.Scope, seeds); err != nil {
		return nil, input.SettingError(err)
	}
	if r.UserAgent, r.Token, err = a.cfg.Identity(); err != nil {
		return nil, err
	}
	r.Seeds = seeds
	a.cfg.Robots.Agent = r.Token
	r.robot = robots.NewCache(a.cfg.Robots)
	return r, a.openFetcher(r.UserAgent)
}

// Close closes the connections.
func (r *Rehearsal) Close() error { return r.agent.Close() }

// Bare reports that a seed was given without a scheme.
func (r *Rehearsal) Bare(u weburl.URL) bool { return r.agent.bare[u] }

// A Prospect is what would become of a seed.
type Prospect struct {
	// URL is the seed, or its http URL if no https connection can be made.
	URL  weburl.URL
	Addr string // of the host; empty if it has none, or if a proxy looks it up
	// Robots is the decision of robots.txt, whose last answer had Status.
	Robots robots.Answer
	Status int
	// Failed says why robots.txt could not be fetched; empty: it could, or it need not be.
	Failed string
}

// A look is what a request for the robots.txt of an origin has brought.
type look struct {
	status  int    // 0: no response
	failed  string // as in a Prospect
	noHTTPS bool   // no https connection can be made
}

// maxRobotsSteps is more than the redirects of a robots.txt that the cache follows.
const maxRobotsSteps = 12

// Look finds out what would become of a seed: the address of its host, and what its robots.txt says.
// It keeps the delays of the crawl between requests. The error is ctx's.
func (r *Rehearsal) Look(ctx context.Context, seed weburl.URL) (p Prospect, err error) {
	p.URL = seed
	a := r.agent
	if a.parts.DNS != nil {
		ans, err := a.parts.DNS.Lookup(ctx, a.fetcher.DialName(seed))
		if err != nil {
			p.Failed = "dns: " + err.Error()
			return p, ctx.Err()
		}
		if len(ans.Addrs) > 0 {
			p.Addr = ans.Addrs[0].String()
		}
	}
	if r.Bare(seed) && r.looks[seed.Origin()].noHTTPS {
		p.URL = input.Plain(seed)
	}
	for range maxRobotsSteps {
		p.Robots = r.robot.Ask(p.URL, a.now())
		if p.Robots.Verdict != robots.Fetch {
			before := r.looks[p.URL.Origin()] // for this seed or another one
			p.Status, p.Failed = before.status, before.failed
			if p.Robots.Verdict == robots.Unreachable && p.Failed == "" {
				p.Failed = "robots.txt cannot be fetched"
			}
			return p, nil
		}
		from := p.Robots.Fetch
		if err := r.rest(ctx, from, p.Addr); err != nil {
			return p, err
		}
		resp, err := a.fetcher.Fetch(ctx, fetch.Request{URL: from, MaxBody: visit.RobotsBody})
		r.asked(from, p.Addr)
		if err != nil {
			return p, err
		}
		reply, why, err := visit.RobotsReply(resp)
		if err != nil {
			resp.Release()
			return p, err
		}
		if resp.Failure == nil {
			p.Status = resp.Status
		}
		switch f := resp.Failure; {
		case f != nil && r.Bare(p.URL) && f.NoConnection():
			resp.Release()
			r.looks[p.URL.Origin()] = look{noHTTPS: true}
			p.URL, p.Failed = input.Plain(p.URL), ""
			continue
		case f != nil:
			p.Failed = f.Error()
		case why != "":
			p.Failed = "did not arrive whole: " + why
		case resp.Status == 429 || resp.Status >= 500:
			p.Failed = fmt.Sprintf("status %d", resp.Status)
		}
		r.looks[p.URL.Origin()] = look{status: p.Status, failed: p.Failed}
		r.robot.Learn(p.URL, from, reply, a.now())
		resp.Release()
	}
	return p, nil
}

// delays returns the delays of the crawl for a host, an address and a registered domain, by their
// names in last.
func (r *Rehearsal) delays(u weburl.URL, addr string) map[string]time.Duration {
	f := &r.agent.cfg.Frontier
	return map[string]time.Duration{
		u.Host():                        max(cmp.Or(f.HostDelay, 2*time.Second), 0),
		"address " + addr:               max(f.IPDelay, 0),
		"site " + weburl.Site(u.Host()): max(f.SiteDelay, 0),
	}
}

// rest waits until a request to u is due.
func (r *Rehearsal) rest(ctx context.Context, u weburl.URL, addr string) error {
	wait := time.Duration(0)
	for of, d := range r.delays(u, addr) {
		if at, ok := r.last[of]; ok {
			wait = max(wait, time.Until(at.Add(d)))
		}
	}
	clock.Pause(ctx, wait)
	return ctx.Err()
}

// asked notes the end of a request.
func (r *Rehearsal) asked(u weburl.URL, addr string) {
	for of := range r.delays(u, addr) {
		r.last[of] = time.Now()
	}
}

// Judge returns the verdict of the scope about a URL, and the rules that decide. A URL that is not
// a seed is judged as a link on a seed's page.
func (r *Rehearsal) Judge(u weburl.URL) (scope.Judgement, []string) {
	l := link.Link{URL: u}
	if !slices.Contains(r.Seeds, u) && len(r.Seeds) > 0 {
		l.Hops, l.Via, l.Seed = "L", r.Seeds[0].String(), r.Seeds[0].Host()
		if u.Host() == r.Seeds[0].Host() {
			l.SetHostDepth(1)
		}
	}
	return r.Scope.Judge(l), r.Scope.Explain(l)
}

// Dir returns a path in the crawl directory.
func (r *Rehearsal) Dir(elem ...string) string {
	return filepath.Join(append([]string{r.agent.cfg.Dir}, elem...)...)
}

// Meet asks whether agents and coordinators answer at the addresses of --join and --coordinator, and does not join: see
// membership.Rehearse. Without a cluster, it does nothing.
func (r *Rehearsal) Meet(ctx context.Context) (membership.Meeting, error) {
	if r.agent.cfg.Cluster == nil {
		return membership.Meeting{}, nil
	}
	return membership.Rehearse(ctx, r.agent.cfg.Cluster, r.agent.place(), r.addr, r.agent.cfg.Resume)
}
