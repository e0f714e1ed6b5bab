package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// An appStory is a crawl with two applications. A process for both of them asks agent a1.
type appStory struct {
	t    *testing.T
	s    *story
	urls []string
	came map[string]map[string]bool // by application: the URLs of its pages
	done atomic.Bool                // the applications are removed
}

// TestApplications: whatever happens to the agents, each URL that an application gives comes back to its process. A
// URL that both applications and the crawl want is requested once, except for what a death excuses.
func TestApplications(t *testing.T) {
	const s = time.Second
	base := Plan{Seed: 91, Agents: 3, Hosts: 12, Pages: 8, Delay: 200 * time.Millisecond, Latency: time.Millisecond}
	with := func(fs ...Fault) Plan {
		p := base
		p.Faults = fs
		return p
	}
	join := with(Fault{Kind: Join, Agent: 4, At: 0.4})
	join.Spare = 1
	for name, c := range map[string]struct {
		plan Plan
		may  bound
	}{
		"no fault":                {with(), bound{}},
		"a death and its restart": {with(Fault{Kind: Kill, Agent: 2, At: 0.3, For: 10 * s}), bound{twice: 30}},
		"a join":                  {join, bound{}},
		"a leave":                 {with(Fault{Kind: Leave, Agent: 3, At: 0.4}), bound{twice: 20}},
		"all": {with(Fault{Kind: Kill, Agent: 2, At: 0.2, For: 5 * s}, Fault{Kind: Leave, Agent: 3, At: 0.5}),
			bound{twice: 30}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &appStory{t: t, came: map[string]map[string]bool{"news": {}, "list": {}}}
				_, v := tellFrom(t, c.plan, nil, func(s *story) {
					a.s = s
					for host := range int64(c.plan.Hosts) {
						a.urls = append(a.urls, s.made.URL(host, 0))
					}
					s.running.Go(a.play)
					s.running.Go(a.watch)
				})
				t.Log(v)
				if v.Bad() {
					t.Error("the story broke a promise: see its verdict")
					for _, l := range v.Log {
						t.Log(l)
					}
				}
				c.may.hold(t, v)
				if a.moved() == 0 && c.plan.Spare > 0 {
					t.Error("no agent has read a page in the archive of another one")
				}
				for app, came := range a.came {
					for _, u := range a.urls {
						if !came[u] {
							t.Errorf("%s was given to %s, and never came back", u, app)
						}
					}
				}
			})
		})
	}
}

// watch tells the judge when an agent is down: then no other agent can read its archive.
func (a *appStory) watch() {
	j := a.s.judge
	for down := map[int]bool{}; !a.done.Load(); time.Sleep(50 * time.Millisecond) {
		for _, o := range a.s.actors {
			a.s.stage.Lock()
			lives := o.lives()
			a.s.stage.Unlock()
			if lives != down[o.number] {
				continue
			}
			down[o.number] = !lives
			j.mu.Lock()
			if now := time.Now(); lives {
				for i := range j.unread {
					if x := &j.unread[i]; x.agent == o.number && x.to.After(now.Add(restartTime)) {
						x.to = now.Add(restartTime)
					}
				}
			} else {
				j.unread = append(j.unread, excuse{o.number, now.Add(-time.Second), now.Add(24 * time.Hour)})
			}
			j.mu.Unlock()
		}
	}
}

// began reports whether an agent runs.
func (s *story) began(o *actor) bool {
	s.stage.Lock()
	defer s.stage.Unlock()
	return o.lives()
}

// moved counts the lines of crawl.log about pages of other agents' archives.
func (a *appStory) moved() (n int) {
	for _, o := range a.s.actors {
		if o.mem == nil {
			continue
		}
		b, err := disk.ReadFile(o.mem, "/crawl/logs/crawl.log", 1<<30)
		if err != nil {
			a.t.Error(err)
		}
		n += strings.Count(string(b), "shared:a")
	}
	return n
}

// open returns agent a1 when it crawls.
func (a *appStory) open() *node.Agent {
	for {
		a.s.stage.Lock()
		p := a.s.actors[0].run
		a.s.stage.Unlock()
		if p != nil {
			if agent := p.open(); agent != nil && agent.Status() != nil {
				return agent
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (a *appStory) play() {
	defer a.done.Store(true)
	op := a.open().Operator()
	ctx := context.Background()
	yes, list := true, "list"
	for _, app := range []string{"news", "list"} {
		strategy := &list
		if app == "news" {
			strategy = nil
		} else if a.s.plan.Spare > 0 { // pages of hosts that have moved
			for !a.s.began(a.s.actors[3]) {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
		}
		a.until(func() error {
			_, err := op.SetApplication(ctx, &pb.SetApplicationRequest{Name: app, Pages: &yes, Strategy: strategy})
			return err
		})
		urls := &pb.FeedRequest{Application: app}
		for _, u := range a.urls {
			urls.Urls = append(urls.Urls, &pb.FeedURL{Url: u})
		}
		a.until(func() error {
			r, err := op.Feed(ctx, urls)
			if err != nil {
				return err
			}
			var again []*pb.FeedURL // of agents that do not answer
			for i, s := range r.Urls {
				if s.Result == "" || s.Result == "failed" {
					again = append(again, urls.Urls[i])
				}
			}
			if urls.Urls = again; len(again) > 0 {
				return context.DeadlineExceeded
			}
			return nil
		})
	}
	last := time.Now()
	for apps := slices.Sorted(maps.Keys(a.came)); !a.over(last); time.Sleep(500 * time.Millisecond) {
		for _, app := range apps {
			r, err := op.Pages(ctx, &pb.PagesRequest{Application: app, Limit: 7})
			if err != nil || len(r.Pages) == 0 {
				continue
			}
			last = time.Now()
			for _, p := range r.Pages {
				a.came[app][p.Url] = true
			}
			if _, err := op.Acknowledge(ctx, &pb.AcknowledgeRequest{Application: app, Token: r.Token}); err != nil {
				a.s.log("acknowledge %s: %v", app, err)
			}
		}
	}
	for app := range a.came {
		a.until(func() error {
			_, err := op.RemoveApplication(ctx, &pb.RemoveApplicationRequest{Name: app})
			return err
		})
	}
}

// over reports that nothing came for a while. It is longer if pages are missing.
func (a *appStory) over(last time.Time) bool {
	complete := true
	for _, came := range a.came {
		for _, u := range a.urls {
			complete = complete && came[u]
		}
	}
	if !complete {
		return time.Since(last) > 10*time.Minute
	}
	return time.Since(last) > 5*time.Second
}

// until calls do until it succeeds.
func (a *appStory) until(do func() error) {
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		err := do()
		if err == nil {
			return
		}
		a.s.log("%v", err)
	}
	a.t.Error("an operator's request failed for 5 minutes")
}
