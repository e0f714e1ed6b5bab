package main

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// givenHosts maps a host, or a folder of a host, to the flag that serves it.
type givenHosts map[string]string

// take notes that a flag with its value serves key. If another flag does already, the error names both, and the remedy.
func (g givenHosts) take(key, flag, remedy string) error {
	if old, ok := g[key]; ok {
		return bad("%s: %s already gives the same host; %s", flag, old, remedy)
	}
	g[key] = flag
	return nil
}

// promiseFlags are the politeness that the crawler claims.
type promiseFlags struct {
	Delay      time.Duration `name:"promise-delay" placeholder:"D" help:"${promise_delay}" group:"Politeness"`
	IPDelay    time.Duration `name:"promise-ip-delay" placeholder:"D" help:"${promise_ip_delay}" group:"Politeness"`
	SiteDelay  time.Duration `name:"promise-site-delay" placeholder:"D" help:"${promise_site_delay}" group:"Politeness"`
	Views      time.Duration `name:"promise-views" placeholder:"D" help:"${promise_views}" group:"Politeness"`
	CrawlDelay bool          `name:"promise-crawl-delay" help:"${promise_crawl_delay}" group:"Politeness"`
	None       bool          `name:"no-politeness" help:"${no_politeness}" group:"Politeness"`
	Agent      string        `default:"orbweaver" help:"${promise_agent}" group:"Politeness"`
}

func (f *promiseFlags) promise() testweb.Promise {
	return testweb.Promise{HostDelay: f.Delay, AddrDelay: f.IPDelay, SiteDelay: f.SiteDelay, CrawlDelay: f.CrawlDelay,
		Agent: f.Agent, None: f.None, Views: f.Views}
}

// checkNumbers refuses ports that do not exist and negative durations.
func (c *TestwebCmd) checkNumbers() error {
	for _, p := range []struct {
		flag string
		port int
	}{{"http-port", c.HTTP}, {"https-port", c.HTTPS}} {
		if p.port < 0 || p.port > 65535 {
			return bad("--%s %d: give a port from 1 to 65535, or 0 for any free one", p.flag, p.port)
		}
	}
	for _, d := range []struct {
		flag string
		d    time.Duration
	}{
		{"time-limit", c.TimeLimit}, {"promise-delay", c.Promise.Delay}, {"promise-ip-delay", c.Promise.IPDelay},
		{"promise-site-delay", c.Promise.SiteDelay}, {"promise-views", c.Promise.Views},
	} {
		if d.d < 0 {
			return bad("--%s %s is negative; give a duration such as 10s, or 0 for none", d.flag, d.d)
		}
	}
	return nil
}

// shapeFlags describe the speed of the line between the web and its clients.
type shapeFlags struct {
	CloseEach bool                `help:"${testweb_close_each}" group:"Speed"`
	Bandwidth *quantity.Bandwidth `help:"${testweb_bandwidth}" placeholder:"RATE" group:"Speed"`
	Latency   time.Duration       `help:"${testweb_latency}" placeholder:"D" group:"Speed"`
	ShapePer  string              `help:"${testweb_shape_per}" enum:"all,client" default:"all" placeholder:"KIND" group:"Speed"`
}

// shape turns the flags into testweb's configuration.
func (f *shapeFlags) shape() (s testweb.Shape, err error) {
	if f.Latency < 0 {
		return s, input.Errorf("--latency %s is negative; give a duration such as 50ms",
			f.Latency)
	}
	s.Latency, s.PerClient = f.Latency, f.ShapePer == "client"
	if f.Bandwidth != nil {
		s.BytesPerSecond = int64(*f.Bandwidth)
	}
	return s, nil
}
