package robots

import (
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A chain is the position in a chain of redirects. It is immutable.
type chain struct {
	next   weburl.URL
	hops   int      // number of redirects followed so far
	passed []string // the other origins whose own robots.txt is in the chain
	prior  state    // the state before the chain
}

// isFile reports that u is the robots.txt of its origin.
func isFile(u weburl.URL) bool { return !u.IsZero() && u.RequestURI() == "/robots.txt" }

// pass records that u was fetched for origin.
func (ch *chain) pass(u weburl.URL, origin string) {
	if o := u.Origin(); isFile(u) && o != origin && !slices.Contains(ch.passed, o) {
		ch.passed = append(slices.Clip(ch.passed), strings.Clone(o))
	}
}

// ends returns the state of origin if the cache has the file to which its chain of redirects leads. Then the file need
// not be fetched again.
func (c *Cache) ends(origin string, ch *chain, now time.Time) (st state, ok bool) {
	if !isFile(ch.next) || ch.next.Origin() == origin {
		return st, false
	}
	st = c.state(ch.next.Origin())
	return st, (st.class == ClassRules || st.class == ClassUnavailable) && st.valid(now)
}

// redirect returns the target of a redirect. ok is false if r is not a redirect or its target is
// unusable.
func redirect(from weburl.URL, r Reply) (to weburl.URL, ok bool) {
	switch r.Status {
	case 301, 302, 303, 307, 308:
		if strings.TrimSpace(r.Location) == "" {
			return to, false
		}
		to, err := from.Resolve(r.Location)
		return to, err == nil && len(to.String()) <= weburl.MaxLength
	}
	return to, false
}
