package verbs

import (
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/hours"
	"github.com/orbweaver/orbweaver/internal/input"
)

// delay sets the delay of a host, of a domain, or of all hosts. The value is a DelayPlan.
var delay = Verb{
	Name: verbDelay, Done: "given a delay by an order",
	Brief: "Set the delay of a host, of a domain or of all hosts, also after a restart.",
	Words: "host-and-delay",
	About: "Name a host, or a domain such as \"*.example.org\", or neither for all hosts; then the delay, such as " +
		"10s, perhaps with times of day: 10s 8-18 mon-fri, else 2s.",
	Help: `The crawl waits this long after a response before the next request to the same
host. Without a host or a domain, the order holds for all hosts.

  orbweaver ctl delay www.example.org 10s --why "a complaint"
  orbweaver ctl delay '*.example.org' 10s 8-18 mon-fri, else 2s
  orbweaver ctl delay 5s

Times of day are in UTC, unless a time zone such as Europe/Berlin is behind
them. Days are mon, mon-fri, weekdays or weekend. Of several orders and settings
for a host, the most specific one holds. The delay may be shorter than --delay,
but not shorter than the Crawl-delay in robots.txt.
"orbweaver ctl explain HOST" says which delay holds, and why. "orbweaver ctl
take-back ID" takes the order back.`,
	Note: "The delay between requests to the same host holds until it is taken back.", Example: "www.example.org 10s",
	rules:  delayRules{},
	Valued: true,
}

// delayRules are the rules of delays.
type delayRules struct{ usual }

func (delayRules) split(words []string) (about, value string) {
	if _, err := time.ParseDuration(words[0]); err == nil || words[0] == "0" {
		return "", strings.Join(words, " ")
	}
	return words[0], strings.Join(words[1:], " ")
}

func (delayRules) subject(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", nil
	}
	about, wide, err := input.About(text)
	if err == nil && wide && !strings.HasPrefix(about, "*.") {
		err = fmt.Errorf("%s: a delay is for a host or a domain; give one such as www.example.org or *.example.org",
			about)
	}
	return about, err
}

func (delayRules) plan(about, text string) (string, error) {
	if text == "" && about != "" {
		return "", fmt.Errorf("%s: no delay; give one such as 10s after the host", about)
	}
	plan, err := ParseDelay(text)
	return plan.String(), err
}

func (delayRules) describe(o orders.Order, _ []orders.Order) string {
	if o.About == "" {
		return "all hosts: " + sets(o, "delay")
	}
	return sets(o, "delay")
}

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
