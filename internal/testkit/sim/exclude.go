package sim

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// excludedPages is the pattern of an exclusion: about half of the pages, and no root.
const excludedPages = `[13579](\.html)?$`

var excluded = regexp.MustCompile(excludedPages)

// manyOrders is the number of orders that take more than one message.
const manyOrders = 1000

// givesMany makes an operator add hosts to the scope at an agent, which has all hosts.
func (s *story) givesMany(a *actor) {
	s.orderAt(a, true, func(o *operate.Operator) {
		var q pb.GiveRequest
		for i := range manyOrders {
			q.Also = append(q.Also, &pb.GiveRequest{Verb: "scope",
				About: fmt.Sprint("host h", i, strings.Repeat(".label-of-a-host", 12), ".example")})
		}
		q.Verb, q.About, q.Why = "scope", "host h.example", strings.Repeat("w", 200)
		r, err := o.Give(context.Background(), &q)
		s.log("%s is given %d orders: %v", a.name, len(r.GetAlso()), err)
	})
}

// excludes makes an operator exclude half of the pages at an agent, and take that back after d at any agent that lives.
// In between no agent may ask for them.
func (s *story) excludes(a *actor, d time.Duration) {
	s.orderAt(a, false, func(o *operate.Operator) {
		s.obey(o, a, &pb.GiveRequest{Verb: "exclude", About: excludedPages}, d, &s.judge.excluding, includes)
	})
}

// includes takes the exclusion back.
func includes(o *operate.Operator) error {
	standing, err := o.Orders(context.Background(), &pb.OrdersRequest{})
	i := slices.IndexFunc(standing.GetOrders(), func(o *pb.Order) bool { return o.Verb == "exclude" })
	if err != nil || i < 0 {
		return errors.Join(err, errors.New("the agent knows no exclusion"))
	}
	_, err = o.TakeBack(context.Background(), &pb.TakeBackRequest{Id: standing.Orders[i].Id})
	return err
}
