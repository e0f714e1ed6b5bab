package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// news follows the links on the hosts of its URLs, and list fetches only its URLs.
const news, list = "news", "list"

// An appStory is a crawl with two applications. A process gives both the first page of each host, and collects their
// pages with bodies. It calls any agent that answers.
type appStory struct {
	t    *testing.T
	s    *story
	urls []string
	wait bool          // list is defined some seconds after an agent has joined
	two  bool          // two processes collect the pages of each application
	down bool          // agents may be down, so bodies in their archives may not come
	late time.Duration // the processes collect nothing until then, from the beginning

	done atomic.Bool  // the applications are removed
	turn atomic.Int64 // counts the calls, which choose agents

	mu    sync.Mutex                // guards the fields below
	due   map[string]map[string]int // how often a page has come, by application and URL
	last  time.Time                 // when the last page came
	wrong []string                  // about bodies
}

// begin is called when the agents have been started.
func (a *appStory) begin(s *story) {
	a.s, a.due = s, map[string]map[string]int{news: {}, list: {}}
	wanted := map[page]bool{}
	for host := range s.made.Hosts() {
		a.urls = append(a.urls, s.made.URL(host, 0))
		truth, err := s.made.Reachable(gen.Bounds{Seeds: []gen.Seed{{Host: host}}, Scope: gen.SeedHosts, Robots: true})
		if err != nil {
			a.t.Error(err)
			return
		}
		truth.Each(func(host, number int64) {
			a.due[news][truth.URL(host, number)] = 0
			wanted[page{host, number}] = true
		})
	}
	for _, u := range a.urls {
		a.due[news][u], a.due[list][u] = 0, 0
	}
	s.judge.mu.Lock()
	s.judge.wanted = wanted
	s.judge.mu.Unlock()
	s.running.Go(a.play)
	s.running.Go(a.watch)
}

// check fails if a page has not come, or has come with a wrong body. once demands that none has come twice.
func (a *appStory) check(once bool) {
	a.t.Helper()
	for app, due := range a.due {
		missing, twice := 0, 0
		for u, n := range due {
			switch {
			case n == 0:
				if missing++; missing <= 5 {
					a.t.Errorf("%s of %s never came", u, app)
				}
			case n > 1 && once:
				if twice++; twice <= 5 {
					a.t.Errorf("%s of %s came %d times", u, app, n)
				}
			}
		}
		a.t.Logf("%s: %d of %d pages came", app, len(due)-missing, len(due))
	}
	for _, w := range a.wrong[:min(5, len(a.wrong))] {
		a.t.Error(w)
	}
}

// watch tells the judge when an agent is down: then no other agent can read its archive.
func (a *appStory) watch() {
	j := a.s.judge
	for down := map[int]bool{}; !a.done.Load(); time.Sleep(50 * time.Millisecond) {
		for _, o := range a.s.actors {
			// The pages that a leaving agent has to the end are fetched again.
			lives := a.s.began(o) && (a.late == 0 || !a.s.leaves(o))
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

// leaves reports whether an agent was told to leave.
func (s *story) leaves(o *actor) bool {
	s.stage.Lock()
	defer s.stage.Unlock()
	return o.leaving
}

// moved counts the lines of crawl.log about pages of other agents' archives.
func (a *appStory) moved() (n int) {
	for _, o := range a.s.actors {
		if o.mem == nil {
			continue
		}
		b, err := disk.ReadFile(o.mem, crawlDir+"/logs/crawl.log", 1<<30)
		if err != nil {
			a.t.Error(err)
		}
		n += strings.Count(string(b), "shared:a")
	}
	return n
}

// gaveAll returns how many hosts an agent that has left gave to others, by its events; -1: they do not say.
func (a *appStory) gaveAll(agent int) (hosts int) {
	b, err := disk.ReadFile(a.s.actors[agent-1].mem, crawlDir+"/logs/events.jsonl", 1<<30)
	if err != nil {
		a.t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		var e struct {
			Event       string
			Left, Hosts int
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "gave-all" && e.Left == 0 {
			return e.Hosts
		}
	}
	return -1
}

// taken returns how many hosts the others have taken from an agent, by their events.
func (a *appStory) taken(agent int) (hosts int) {
	name := fmt.Sprint("a", agent)
	for _, o := range a.s.actors {
		if o.mem == nil {
			continue
		}
		b, err := disk.ReadFile(o.mem, crawlDir+"/logs/events.jsonl", 1<<30)
		if err != nil {
			a.t.Error(err)
		}
		for line := range strings.Lines(string(b)) {
			var e struct {
				Event, Agent string
				Hosts        int
			}
			if json.Unmarshal([]byte(line), &e) == nil && e.Event == "hosts-taken" && e.Agent == name {
				hosts += e.Hosts
			}
		}
	}
	return hosts
}

// operator returns that of an agent that crawls: another one at each call.
func (a *appStory) operator() *operate.Operator {
	for {
		if agent := a.agent(int(a.turn.Add(1))); agent != nil {
			return agent.Operator()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (a *appStory) agent(from int) *node.Agent {
	a.s.stage.Lock()
	defer a.s.stage.Unlock()
	for i := range a.s.actors {
		o := a.s.actors[(from+i)%len(a.s.actors)]
		if !o.lives() {
			continue
		}
		if agent := o.run.open(); agent != nil && agent.Status() != nil {
			return agent
		}
	}
	return nil
}

func (a *appStory) play() {
	defer a.done.Store(true)
	ctx := context.Background()
	yes, byList := true, "list"
	for _, app := range []string{news, list} {
		strategy := &byList
		if app == news {
			strategy = nil
		} else if a.wait { // pages of hosts that have moved
			for !a.s.began(a.s.actors[a.s.plan.Agents]) {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
		}
		a.until(func(op *operate.Operator) error {
			_, err := op.SetApplication(ctx, &pb.SetApplicationRequest{Name: app, Pages: &yes, Strategy: strategy})
			return err
		})
		urls := &pb.FeedRequest{Application: app}
		for _, u := range a.urls {
			urls.Urls = append(urls.Urls, &pb.FeedURL{Url: u})
		}
		a.until(func(op *operate.Operator) error {
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
			a.s.log("fed: %v", r.Urls)
			if urls.Urls = again; len(again) > 0 {
				return fmt.Errorf("%d URLs were not accepted", len(again))
			}
			return nil
		})
	}
	if a.late > 0 {
		a.s.stage.Lock()
		a.s.still = append(a.s.still, excuse{from: time.Now(), to: start.Add(a.late + restartTime)})
		a.s.stage.Unlock()
		time.Sleep(time.Until(start.Add(a.late)))
	}
	a.mu.Lock()
	a.last = time.Now()
	a.mu.Unlock()
	var all sync.WaitGroup
	for range 1 + map[bool]int{true: 1}[a.two] {
		all.Go(func() {
			for ; !a.over(); time.Sleep(500 * time.Millisecond) {
				a.collect(ctx, news)
				a.collect(ctx, list)
			}
		})
	}
	all.Wait()
	a.tellStates(ctx)
	for app := range a.due {
		a.until(func(op *operate.Operator) error {
			_, err := op.Give(ctx, &pb.GiveRequest{Verb: "app", About: app, Off: true})
			return err
		})
	}
}

// tellStates logs how far the applications are.
func (a *appStory) tellStates(ctx context.Context) {
	r, err := a.operator().Applications(ctx, &pb.ApplicationsRequest{})
	if err != nil {
		a.s.log("applications: %v", err)
	}
	for _, app := range r.GetApplications() {
		a.s.log("application %s: %v", app.Name, app.Agents)
	}
}

// collect collects the next pages of an application.
func (a *appStory) collect(ctx context.Context, app string) {
	op := a.operator()
	r, err := op.Pages(ctx, &pb.PagesRequest{Application: app, Limit: 20, Body: true})
	if err != nil || len(r.Pages) == 0 {
		return
	}
	a.mu.Lock()
	a.last = time.Now()
	for _, p := range r.Pages {
		a.due[app][p.Url]++
		if wrong := a.judgeBody(p); wrong != "" {
			a.wrong = append(a.wrong, fmt.Sprintf("%s: %s of %s from %s: %s", time.Since(start), p.Url, app, p.Agent,
				wrong))
		}
	}
	a.mu.Unlock()
	if q, err := op.Acknowledge(ctx, &pb.AcknowledgeRequest{Application: app, Token: r.Token}); err != nil ||
		len(q.Silent) > 0 {
		a.s.log("acknowledge %s: %v %v", app, q, err)
	}
}

// judgeBody says what is wrong with the body of a page.
func (a *appStory) judgeBody(p *pb.FetchedPage) string {
	host, number, ok := a.pageOf(p.Url)
	if p.Status != 200 || !ok {
		return ""
	}
	answer, reply := a.s.made.Answer(nil, testweb.Query{Host: host, Target: a.s.made.Target(host, number), Answered: 3,
		Secure: strings.HasPrefix(p.Url, "https:")})
	kept := a.s.judge.isKept(p.Url)
	switch {
	case p.BodyError != "" && kept && !a.down:
		return p.BodyError
	case p.BodyError == "" && !bytes.Equal(p.Body, answer[reply.HeadLen:]):
		return fmt.Sprintf("the body has %d bytes, that of the web %d: %s", len(p.Body), len(answer)-reply.HeadLen,
			p.Note)
	}
	return ""
}

// pageOf returns the page with a URL.
func (a *appStory) pageOf(url string) (host, number int64, ok bool) {
	a.s.judge.truth.Each(func(h, n int64) {
		if !ok && a.s.made.URL(h, n) == url {
			host, number, ok = h, n, true
		}
	})
	return host, number, ok
}

// over reports that nothing came for a while, and that no agent is down. The while is longer if pages are missing.
func (a *appStory) over() bool {
	back := a.allBack()
	a.mu.Lock()
	defer a.mu.Unlock()
	complete := true
	for _, due := range a.due {
		for _, n := range due {
			complete = complete && n > 0
		}
	}
	if !back {
		if complete { // the crawl has nothing to do, and does not end
			a.s.stage.Lock()
			a.s.still = append(a.s.still, excuse{from: a.last, to: time.Now().Add(restartTime)})
			a.s.stage.Unlock()
		}
		a.last = time.Now()
	}
	if complete {
		return time.Since(a.last) > 5*time.Second
	}
	return time.Since(a.last) > 10*time.Minute
}

// allBack reports that all faults are over, and that the agents crawl. Otherwise an agent that is down would not hear
// that the applications are removed, and would wait for their processes when the others have ended.
func (a *appStory) allBack() bool {
	if !a.s.played.Load() || a.s.pending.Load() > 0 {
		return false
	}
	a.s.stage.Lock()
	defer a.s.stage.Unlock()
	for _, o := range a.s.actors {
		if o.run == nil || o.gone || o.leaving || o.run.ended() && !o.run.killed {
			continue
		}
		if agent := o.run.open(); agent == nil || agent.Status() == nil {
			return false
		}
	}
	return true
}

// until calls do until it succeeds.
func (a *appStory) until(do func(op *operate.Operator) error) {
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		err := do(a.operator())
		if err == nil {
			return
		}
		a.s.log("%v", err)
	}
	a.t.Error("an operator's request failed for 5 minutes")
}

// tell tells a story with applications. once demands that no page comes twice to the process.
func (a *appStory) tell(p Plan, once bool) (v *Verdict) {
	events := openEvents(a.t, p)
	t := a.t
	synctest.Test(t, func(t *testing.T) {
		a.t = t
		_, v = tellFrom(t, p, events, a.begin)
		os.Remove(events.Name())
		t.Log(v)
		if v.Bad() {
			t.Error("the story broke a promise: see its verdict")
		}
		if a.check(once); t.Failed() {
			for _, l := range append(v.Log, a.s.agentEvents()...) {
				t.Log(l)
			}
		}
	})
	a.t = t
	return v
}
