package visit

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// dress adds the fields that belong to the URL of a request: those of Sheets, and the cookies. Secret values do not go
// into the archive. A redirect is a new URL, so it gets only what belongs to it. dress returns the hash of the cookies.
func (p *Pool) dress(r *fetch.Request) uint64 {
	if t := p.Sheets.Table(); t != nil {
		for _, h := range t.URL(r.URL).Headers {
			if !h.Goes(r.URL) {
				continue
			}
			if f := [2]string{h.Name, h.Value}; h.Secret {
				r.Secret = append(r.Secret, f)
			} else {
				r.Header = append(r.Header, f)
			}
		}
	}
	cookies := p.cookiesFor(r.URL)
	if cookies != "" {
		r.Secret = append(r.Secret, [2]string{"Cookie", cookies})
	}
	return xxhash.Sum64String(cookies)
}

// cookiesFor returns the Cookie field of a request for u, unless Sheets set it.
func (p *Pool) cookiesFor(u weburl.URL) string {
	if p.cfg.Cookies == nil {
		return ""
	}
	if t := p.Sheets.Table(); t != nil {
		for _, h := range t.URL(u).Headers {
			if h.Goes(u) && strings.EqualFold(h.Name, "Cookie") {
				return ""
			}
		}
	}
	return p.cfg.Cookies.Field(u)
}

// learnCookies keeps the cookies that a response sets.
func (p *Pool) learnCookies(r *fetch.Response) {
	if p.cfg.Cookies == nil || r == nil || r.Failure != nil {
		return
	}
	if fields := r.Header.Values("Set-Cookie"); len(fields) > 0 {
		p.cfg.Cookies.Learn(r.URL, fields, p.cfg.Clock.Now())
	}
}

// comesBack reports whether a redirect of v's URL leads back to a URL of its own chain of redirects: A to A, or A to B
// to A. Then v skips it. It is followed if the request differs from all before: if a redirect has changed the cookies,
// or the session id in the URL. Then next knows its chain, which makes it a new link. MaxRedirects bounds the chain.
// Safe for concurrent use.
func (p *Pool) comesBack(v *Attempt, next *link.Link) bool {
	l := &v.Task.Link
	steps := link.AddStep(l.Steps(), l.URL, requestOf(l.URL, v.Response.Cookies))
	cookies := xxhash.Sum64String(p.cookiesFor(next.URL))
	times, same := link.Passed(steps, next.URL, requestOf(next.URL, cookies))
	if same || next.URL.String() == l.Via && Trailing(l.Hops, 'R') > 0 && p.cfg.Cookies == nil {
		v.Notes = append(v.Notes, "redirect-loop")
		v.Skipped = append(v.Skipped, Skip{*next, redirectLoop})
		return true
	}
	if times > 0 || p.cfg.Cookies != nil {
		next.SetSteps(steps)
	}
	return false
}

// redirectLoop is the reason why a redirect is not followed that leads back to where it came from.
const redirectLoop = "redirectLoop"

// requestOf returns a hash of that in which the requests of a chain for the same page differ.
func requestOf(u weburl.URL, cookies uint64) uint32 {
	return uint32(xxhash.Sum64String(u.String()) ^ cookies)
}
