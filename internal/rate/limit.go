package rate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Limit bounds the speed of a crawl. The zero Limit is no limit.
type Limit struct {
	// Requests bounds the requests a second, those for robots.txt and retries included. Zero means no limit.
	Requests float64
	// Bits bounds the bits a second of responses. They count as they are read from the connection, with their
	// headers and before the content is decoded. Zero means no limit.
	Bits float64
}

// None reports whether there is no limit.
func (l Limit) None() bool { return l == Limit{} }

// Lower returns the lower limits of two.
func (l Limit) Lower(m Limit) Limit {
	lower := func(a, b float64) float64 {
		if a == 0 || b > 0 && b < a {
			return b
		}
		return a
	}
	return Limit{lower(l.Requests, m.Requests), lower(l.Bits, m.Bits)}
}

// String returns the limit as Parse reads it. If there are limits of both kinds, a comma separates them.
func (l Limit) String() string {
	var parts []string
	if l.Requests > 0 {
		parts = append(parts, number(l.Requests)+"/s")
	}
	if l.Bits > 0 {
		unit, name := 1.0, "bit"
		for _, u := range []struct {
			size float64
			name string
		}{{1e3, "kbit"}, {1e6, "Mbit"}, {1e9, "Gbit"}} {
			if l.Bits >= u.size {
				unit, name = u.size, u.name
			}
		}
		parts = append(parts, number(l.Bits/unit)+name)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// Bounds of the values of a Limit. Outside of them a value is a mistake.
const (
	leastRequests, mostRequests = 1e-4, 1e6
	leastBits, mostBits         = 1e3, 1e12
)

var limitText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(/s|bit|kbit|Mbit|Gbit|)$`)

// parseLimit reads 300/s, 200Mbit or none. A number without a unit counts requests a second, and 0 is no limit.
func parseLimit(text string) (l Limit, err error) {
	if text == "none" || text == "0" {
		return l, nil
	}
	m := limitText.FindStringSubmatch(text)
	if m == nil {
		return l, fmt.Errorf("%.80q is not a rate; write 300/s, 200Mbit or none", text)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return l, fmt.Errorf("%.80q is not a rate; write 300/s, 200Mbit or none", text)
	}
	unit := map[string]float64{"bit": 1, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}[m[2]]
	if unit > 0 {
		if x *= unit; x < leastBits || x > mostBits {
			return l, fmt.Errorf("%.80q is out of range; give 1kbit to 1000Gbit", text)
		}
		return Limit{Bits: x}, nil
	}
	if x < leastRequests || x > mostRequests {
		return l, fmt.Errorf("%.80q is out of range; give 0.0001/s to 1000000/s", text)
	}
	return Limit{Requests: x}, nil
}

// OfSeveral returns how many requests a second n agents may begin together, so that they stay below 105 % of a limit in
// any ten seconds. In such a time each agent may begin one request more than its part of the limit has, and what Slack
// allows. So it is less than the limit only if that is below two requests a second for each agent.
func OfSeveral(limit float64, n int) float64 {
	const window = 10 // seconds
	most := (1.05*window*limit - float64(n-1)) / (window + Slack.Seconds())
	return min(limit, max(most, limit/2))
}
