package operate

import (
	"context"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
)

// verbRate is the verb of an order that limits the requests or bits a second of the whole crawl; with a domain, the
// requests a second to that domain. Its value is a rate.Schedule.
const verbRate = "rate"

// Rate returns the schedule of the order that stands, or nil if there is none. An order that this version cannot read
// counts as none.
func Rate(standing []orders.Order) *rate.Schedule {
	for _, o := range standing {
		if o.Verb != verbRate || o.About != "" {
			continue
		}
		if s, err := rate.Parse(o.Value); err == nil {
			return &s
		}
	}
	return nil
}

// Rate implements pb.OperatorHandler.
func (o *Operator) Rate(ctx context.Context, q *pb.RateRequest) (*pb.RateResponse, error) {
	s, err := rate.Parse(q.Rate)
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "rate: %v", err)
	}
	given, answers, err := o.give(ctx, orders.Order{Verb: verbRate, Value: s.String(), Why: q.Why}, "rate "+s.String())
	return &pb.RateResponse{Order: given, Answers: answers}, err
}
