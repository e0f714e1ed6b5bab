package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/hours"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// verbDelay is the verb of orders that set the delay of a host, of a domain, or of all hosts. The value is a plan of
// package hours.
const verbDelay = "delay"

// maxDelay is the longest delay of an order, the same as of a setting of hosts.
const maxDelay = 24 * time.Hour

// A DelayPlan says which delay holds at which time.
type DelayPlan = hours.Plan[time.Duration]

// ParseDelay reads a plan of delays, such as "10s 8-18 mon-fri, else 2s". The error is for people.
func ParseDelay(s string) (DelayPlan, error) {
	return hours.Parse(s, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if s == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 || d > maxDelay {
			return 0, fmt.Errorf("%.100q is not a delay from 0s to 24h; give one such as 10s, or \"10s 8-18 mon-fri, "+
				"else 2s\"", s)
		}
		return d, nil
	})
}

// DelayOf returns the canonical name of what an order of delay is about: a host, a domain (*.example.org), or "" for
// all hosts. A URL means its host. The error is for people.
func DelayOf(s string) (about string, err error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", nil
	}
	about, wide, err := input.About(s)
	if err == nil && wide && !strings.HasPrefix(about, "*.") {
		err = fmt.Errorf("%s: a delay is for a host or a domain; give one such as www.example.org or *.example.org",
			about)
	}
	return about, err
}

// A Delay is an order that stands and sets delays.
type Delay struct {
	About string // a host, a domain (*.example.org), or "" for all hosts
	Plan  DelayPlan
	Order orders.Order
}

// Delays returns the delays among the orders that stand.
func Delays(standing []orders.Order) (delays []Delay) {
	for _, o := range standing {
		if o.Verb != verbDelay {
			continue
		}
		if plan, err := ParseDelay(o.Value); err == nil { // otherwise another version has given it
			delays = append(delays, Delay{o.About, plan, o})
		}
	}
	return delays
}

// Delay implements pb.OperatorHandler.
func (o *Operator) Delay(ctx context.Context, q *pb.DelayRequest) (*pb.DelayResponse, error) {
	about, err := DelayOf(q.About)
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	plan, err := ParseDelay(q.Delay)
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	text := "delay " + plan.String()
	if about != "" {
		text = about + ": " + text
	}
	order := orders.Order{Verb: verbDelay, About: about, Value: plan.String(), Why: q.Why}
	given, answers, err := o.give(ctx, order, text)
	return &pb.DelayResponse{Order: given, Answers: answers}, err
}
