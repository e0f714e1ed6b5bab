package operate

import (
	"context"
	"fmt"
	"regexp"

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

// zeroRate finds a rate of zero in the text of a schedule: at its start or after a comma, perhaps after "else".
var zeroRate = regexp.MustCompile(`(?:^|,)\s*(?:else\s+)?(0+(?:\.0*)?(?:/s|[kMG]?bit)?)(?:[\s,]|$)`)

// ParseRate reads the rate of an order. It refuses a rate of zero, which rate.Parse reads as no limit. The error is
// for people.
func ParseRate(text string) (rate.Schedule, error) {
	if m := zeroRate.FindStringSubmatch(text); m != nil {
		return rate.Schedule{}, fmt.Errorf("%.80q: a rate of zero is not possible; write none for no limit, or stop "+
			"all requests with \"orbweaver ctl pause\"", m[1])
	}
	return rate.Parse(text)
}

// Rate implements pb.OperatorHandler.
func (o *Operator) Rate(ctx context.Context, q *pb.RateRequest) (*pb.RateResponse, error) {
	s, err := ParseRate(q.Rate)
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "rate: %v", err)
	}
	given, answers, err := o.give(ctx, orders.Order{Verb: verbRate, Value: s.String(), Why: q.Why}, "rate "+s.String())
	return &pb.RateResponse{Order: given, Answers: answers}, err
}

// RateWeek implements pb.OperatorHandler.
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
