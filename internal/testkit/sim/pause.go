package sim

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// pauseLag is how long visits that had begun before a pause may make requests.
const pauseLag = 5 * time.Second

// pauses makes an operator pause the crawl at an agent, and resume it after d at any agent that lives. In between no
// agent may make a request.
func (s *story) pauses(a *actor, d time.Duration) {
	p, began := a.run, time.Now()
	s.pending.Add(1)
	s.running.Go(func() {
		defer s.pending.Add(-1)
		defer func() {
			s.stage.Lock()
			defer s.stage.Unlock()
			s.still = append(s.still, excuse{from: began, to: time.Now().Add(restartTime)})
		}()
		agent := p.open()
		if agent == nil {
			s.log("%s has not opened, and cannot be asked to pause", a.name)
			return
		}
		r, err := agent.Operator().Give(context.Background(), &pb.GiveRequest{Verb: "pause", Why: "story"})
		s.log("%s pauses the crawl: %v %v", a.name, r, err)
		if err != nil {
			return
		}
		time.Sleep(pauseLag)
		s.judge.paused(true)
		time.Sleep(d)
		s.judge.paused(false)
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			for _, a := range s.actors {
				if s.resumes(a) {
					return
				}
			}
		}
	})
}

// resumes takes a pause back at an agent, if the agent lives.
func (s *story) resumes(a *actor) bool {
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
	r, err := agent.Operator().Give(context.Background(), &pb.GiveRequest{Verb: "pause", Off: true})
	s.log("%s resumes the crawl: %v %v", a.name, r, err)
	return err == nil
}

// paused tells the judge whether the crawl is paused.
func (j *judge) paused(is bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.halted = is
}
