package record

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// robotsHops is how many redirects of a robots.txt are followed (RFC 9309, 2.3.1.2).
const robotsHops = 5

// readRobots reads the recorded robots.txt of every host.
func (a *Archive) readRobots() {
	for n := range a.hosts {
		h := &a.hosts[n]
		for i, secure := range [2]bool{false, true} {
			h.robots[i] = a.robotsOf(int64(n), origin{secure: secure})
			h.CrawlDelay = max(h.CrawlDelay, h.robots[i].CrawlDelay())
		}
		for i := range h.others {
			k := &h.others[i]
			k.robots = a.robotsOf(int64(n), k.origin)
			h.CrawlDelay = max(h.CrawlDelay, k.robots.CrawlDelay())
		}
	}
}

// robotsOf returns the rules of the robots.txt of a host's origin, after redirects. If the file cannot be read or its
// status is not 2xx, it allows everything, so that the report blames a crawler only for what was clearly forbidden.
func (a *Archive) robotsOf(n int64, o origin) *testweb.Robots {
	target := "/robots.txt"
	for range robotsHops + 1 {
		c, _, ok := a.find(n, o, target)
		if !ok {
			return nil
		}
		b, r := a.Answer(nil, testweb.Query{Host: n, Secure: o.secure, Port: o.port, Target: target})
		switch {
		case r.Status/100 == 2:
			return a.readRules(c)
		case r.Status/100 != 3:
			return nil
		}
		to, err := url.Parse(headerValue(b[:r.HeadLen], "location"))
		if err != nil {
			return nil
		}
		base := &url.URL{Scheme: "http", Host: a.hosts[n].Name, Path: target}
		if o.secure {
			base.Scheme = "https"
		}
		if o.port != 0 {
			base.Host += ":" + strconv.Itoa(int(o.port))
		}
		l := locate(base.ResolveReference(to).String())
		if l.why != "" {
			return nil
		}
		if n, ok = a.Find(l.host); !ok {
			return nil
		}
		o, target = l.origin, l.target
	}
	return nil
}

// headerValue returns the value of the first field with this name, which must be in lower case.
func headerValue(head []byte, name string) string {
	for line := range bytes.Lines(head) {
		if k, v, ok := bytes.Cut(line, []byte{':'}); ok && fold(bytes.TrimSpace(k), name) {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

// readRules reads a recorded robots.txt. It uses testweb.ReadRobots, which is independent of the crawler's parser.
func (a *Archive) readRules(c capture) *testweb.Robots {
	rec, err := warc.At(io.NewSectionReader(a.files[c.body.file()], 0, 1<<62), c.body.offset())
	if err != nil {
		return nil
	}
	in, err := rec.Payload(context.Background())
	if err != nil {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(in, testweb.RobotsBytes)) // the rules in front of an error count
	return testweb.ReadRobots(b, a.cfg.Agent)
}
