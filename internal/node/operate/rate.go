package operate

import (
	"context"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
)

func (o *Operator) RateWeek(_ context.Context, q *pb.RateWeekRequest) (*pb.RateWeekResponse, error) {
	parse := func() (rate.Schedule, error) { return rate.Parse(q.Rate) }
	switch {
	case len(q.Hours) > 0 && q.Rate != "":
		return nil, problem(connect.CodeInvalidArgument, "give a rate or the hours of a week, not both")
	case len(q.Hours) > 0:
		parse = func() (rate.Schedule, error) { return rate.Compose(q.Hours, q.Zone) }
	}
	s, err := parse()
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "rate: %v", err)
	}
	r := &pb.RateWeekResponse{Rate: s.String()}
	if n := len(r.Rate); n > orders.MaxText {
		return nil, problem(connect.CodeInvalidArgument, "the text of this week has %d characters, and at most %d are "+
			"possible: use fewer different hours", n, orders.MaxText)
	}
	var whole bool
	r.Hours, r.Zone, whole = s.Week()
	r.Parted = !whole
	return r, nil
}
