package sim

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// pauses makes an operator pause the crawl at an agent, and resume it after d at any agent that lives. In between no
// agent may make a request.
func (s *story) pauses(a *actor, d time.Duration) {
	began := time.Now()
	s.orderAt(a, false, func(o *operate.Operator) {
		s.obey(o, a, &pb.GiveRequest{Verb: "pause"}, d, &s.judge.halted, func(o *operate.Operator) error {
			_, err := o.Give(context.Background(), &pb.GiveRequest{Verb: "pause", Off: true})
			return err
		})
		s.stage.Lock()
		defer s.stage.Unlock()
		s.still = append(s.still, excuse{from: began, to: time.Now().Add(restartTime)})
	})
}
