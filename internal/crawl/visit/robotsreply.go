package visit

import (
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// RobotsBody bounds the bytes read of a robots.txt: a little more than the part that counts
// (RFC 9309, 2.5), so that a cut file can be told.
const RobotsBody = robots.ReadLimit + 64<<10

// RobotsReply returns what a response says about the robots.txt that it answers for. A part of a file may allow what
// the rest forbids. So a file that did not arrive whole counts as failed (RFC 9309, 2.3.1.4), and why says in words
// what was wrong. The body of a redirect or of an error page does not matter. The reply is valid until resp is
// released. The error is one of the spill file.
func RobotsReply(resp *fetch.Response) (r robots.Reply, why string, err error) {
	r = robots.Reply{Status: resp.Status, Failed: resp.Failure != nil}
	if r.Failed {
		return r, "", nil
	}
	r.Location = resp.Header.Get("Location")
	r.MaxAge = maxAge(resp.Header.Get("Cache-Control"))
	if resp.Status/100 == 2 {
		r.Body, why, err = resp.DecodeWhole(robots.ReadLimit + 1)
		r.Failed = why != ""
	}
	return r, why, err
}

// maxAge reads max-age from Cache-Control (RFC 9111, 5.2.2.1). Zero means none.
func maxAge(s string) time.Duration {
	for _, d := range strings.Split(s, ",") {
		if n, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(d)), "max-age="); ok {
			if k, err := strconv.Atoi(strings.Trim(n, `"`)); err == nil && k > 0 {
				return time.Duration(min(k, 365*86400)) * time.Second
			}
		}
	}
	return 0
}
