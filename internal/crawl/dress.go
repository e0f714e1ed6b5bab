package crawl

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// dress adds the fields that belong to the URL of a request: those of Sheets, and the cookies. Secret values do not go
// into the archive. A redirect is a new URL, so it gets only what belongs to it.
func (c *Crawler) dress(r *fetch.Request) {
	own := false // Sheets set the Cookie field
	if t := c.Sheets.Table(); t != nil {
		for _, h := range t.URL(r.URL).Headers {
			if !h.Goes(r.URL) {
				continue
			}
			if f := [2]string{h.Name, h.Value}; h.Secret {
				r.Secret = append(r.Secret, f)
			} else {
				r.Header = append(r.Header, f)
			}
			own = own || strings.EqualFold(h.Name, "Cookie")
		}
	}
	if c.Cookies == nil || own {
		return
	}
	if cookies := c.Cookies.Field(r.URL); cookies != "" {
		r.Secret = append(r.Secret, [2]string{"Cookie", cookies})
	}
}

// learnCookies keeps the cookies that a response sets.
func (c *Crawler) learnCookies(r *fetch.Response) {
	if c.Cookies == nil || r == nil || r.Failure != nil {
		return
	}
	if fields := r.Header.Values("Set-Cookie"); len(fields) > 0 {
		c.Cookies.Learn(r.URL, fields, c.cfg.Now())
	}
}
