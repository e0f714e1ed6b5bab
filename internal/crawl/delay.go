package crawl

import (
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Delays says how long the delays of hosts are, besides the Frontier's configuration.
type Delays struct {
	// DelayFactor makes the delay of a host that has none of its own (frontier.Config.Delays) this multiple of its
	// last response times, at least HostDelay and at most DelayMax. Zero means that it does not follow them.
	DelayFactor float64
	DelayMax    time.Duration
	// WhyDelay tells why the Frontier's HostDelay of a host is as it is, such as "order a1-1f". WhyPace tells at which
	// rate the domain of a host is visited at most, and why; empty: at any. Nil tells nothing.
	WhyDelay, WhyPace HostReasons
	Reasons           Reasons // nil tells nothing
}

// HostReasons tells, for people, why a host is visited as it is.
type HostReasons interface{ Why(host string) string }

// Reasons tells, for people, why the crawl is held back. It is asked only while that lasts.
type Reasons interface {
	// WhyPaused tells who has paused the crawl, such as "order a1-1f of alice".
	WhyPaused() string
	// WhyRate tells which rate holds now.
	WhyRate() string
}

// delays are the delays of hosts, as far as the frontier does not decide them.
type delays struct {
	cfg      *Config
	frontier *frontier.Frontier
	robots   *robots.Cache
}

// auto returns the delay of a host by the response times of its last requests, with Config.DelayFactor; otherwise
// 0. A slower response counts at once, a faster one by half. The delay takes the place of a Crawl-delay: the frontier
// keeps it, the journal has it, and it moves with the host.
func (h *delays) auto(v *visit.Attempt, host string) time.Duration {
	if h.cfg.DelayFactor <= 0 || v.Response.Began.IsZero() {
		return 0
	}
	if _, own := h.frontier.OwnDelay(host); own {
		return 0
	}
	return followed(h.frontier.Host(host).Delay, h.frontier.HostDelay(host), h.cfg, v.Response.Took)
}

// followed returns the delay after a response that took some time. before is the host's delay until then; least is what
// it has in any case, and 0 means that.
func followed(before, least time.Duration, cfg *Config, took time.Duration) time.Duration {
	d := time.Duration(min(cfg.DelayFactor*float64(took), float64(cfg.DelayMax)))
	if before = max(before, least); d < before {
		d = (d + before) / 2
	}
	d = min(d, cfg.DelayMax).Round(time.Millisecond)
	if d <= least {
		return 0
	}
	return d
}

// explain says which delay of a host holds, and why.
func (h *delays) explain(host string, now time.Time) string {
	d, why := h.frontier.HostDelay(host), ""
	if h.cfg.WhyDelay != nil {
		why = ", " + h.cfg.WhyDelay.Why(host)
	}
	asked, known := h.ofRobots(host, now), h.frontier.Host(host).Delay
	if h.cfg.DelayFactor <= 0 {
		asked = max(asked, known) // that of another port, or of another agent
	} else if _, own := h.frontier.OwnDelay(host); !own {
		why = fmt.Sprintf(", auto: %g times the last response times, from %s to %s", h.cfg.DelayFactor, d,
			h.cfg.DelayMax)
		if known > asked {
			d = known
		}
	}
	s := fmt.Sprintf("  delay: %s%s", d, why)
	switch {
	case asked > d:
		s = fmt.Sprintf("  delay: %s (robots.txt asks for it; without it %s%s)", asked, d, why)
	case asked > 0:
		s += fmt.Sprintf("; robots.txt asks for %s", asked)
	}
	return s + "\n"
}

// ofRobots returns the Crawl-delay of a host whose robots.txt is known; 0: none.
func (h *delays) ofRobots(host string, now time.Time) (d time.Duration) {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	for _, scheme := range []string{"http://", "https://"} {
		if u, err := weburl.Parse(scheme + host + "/"); err == nil {
			d = max(d, h.robots.Ask(u, now).Delay)
		}
	}
	return d
}

// explainPace says at which rate the domain of a host is visited at most.
func (h *delays) explainPace(host string) string {
	if h.cfg.WhyPace == nil {
		return ""
	}
	if why := h.cfg.WhyPace.Why(host); why != "" {
		return "  rate: " + why + "\n"
	}
	return ""
}
