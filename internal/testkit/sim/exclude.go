package sim

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// excludedPages is the pattern of an exclusion: about half of the pages, and no root.
const excludedPages = `[13579](\.html)?$`

var excluded = regexp.MustCompile(excludedPages)

// manyOrders is the number of orders that take more than one message.
const manyOrders = 1000

// givesMany makes an operator add hosts to the scope at an agent, which has all hosts. story.answered tells the end.
func (s *story) givesMany(a *actor) {
	p := a.run
	s.pending.Add(1)
	s.running.Go(func() {
		defer s.pending.Add(-1)
		defer func() { s.answered <- struct{}{} }()
		agent := p.open()
		if agent == nil {
			s.log("%s has not opened, and cannot be given orders", a.name)
			return
		}
		var q pb.GiveRequest
		for i := range manyOrders {
			q.Also = append(q.Also, &pb.GiveRequest{Verb: "scope",
				About: fmt.Sprint("host h", i, strings.Repeat(".label-of-a-host", 12), ".example")})
		}
		q.Verb, q.About, q.Why = "scope", "host h.example", strings.Repeat("w", 200)
		r, err := agent.Operator().Give(context.Background(), &q)
		s.log("%s is given %d orders: %v", a.name, len(r.GetAlso()), err)
	})
}

// excludes makes an operator exclude half of the pages at an agent, and take that back after d at any agent that lives.
// In between no agent may ask for them.
func (s *story) excludes(a *actor, d time.Duration) {
	p := a.run
	s.pending.Add(1)
	s.running.Go(func() {
		defer s.pending.Add(-1)
		agent := p.open()
		if agent == nil {
			s.log("%s has not opened, and cannot be asked to exclude", a.name)
			return
		}
		q := &pb.GiveRequest{Verb: "exclude", About: excludedPages, Why: "story"}
		r, err := agent.Operator().Give(context.Background(), q)
		s.log("%s excludes pages: %v %v", a.name, r, err)
		if err != nil {
			return
		}
		time.Sleep(pauseLag)
		s.judge.excludes(true)
		time.Sleep(d)
		s.judge.excludes(false)
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			for _, a := range s.actors {
				if s.includes(a) {
					return
				}
			}
		}
	})
}

// includes takes the exclusion back at an agent, if the agent lives.
func (s *story) includes(a *actor) bool {
	s.stage.Lock()
	lives, p := a.lives(), a.run
	s.stage.Unlock()
	if !lives {
		return false
	}
	agent := p.open()
	if agent == nil || agent.Status() == nil {
		return false
	}
	o := agent.Operator()
	standing, err := o.Orders(context.Background(), &pb.OrdersRequest{})
	i := slices.IndexFunc(standing.GetOrders(), func(o *pb.Order) bool { return o.Verb == "exclude" })
	if err != nil || i < 0 {
		return false
	}
	r, err := o.TakeBack(context.Background(), &pb.TakeBackRequest{Id: standing.Orders[i].Id})
	s.log("%s takes the exclusion back: %v %v", a.name, r, err)
	return err == nil
}

// excludes tells the judge whether half of the pages are excluded.
func (j *judge) excludes(is bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.excluding = is
}
