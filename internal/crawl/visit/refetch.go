package visit

import (
	"strconv"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An agent may be lost with its archive. Then the other agents fetch its pages again if the operator wants it, each as
// an ordinary link with Refetches. Its key differs from that of the URL, so the seen-set takes it for new. The links
// on such a page are not followed: a lost agent is known to have had a page only when others had the page's links.

// refetchHops is the discovery path of such a link. How the page was found is not known, and a seed would extend the
// scope.
const refetchHops = "I"

// RefetchLink returns the link that fetches the page of a lost archive again. l is the link that fetched it before. ok
// is false if the page was fetched again too often.
func RefetchLink(l link.Link) (again link.Link, ok bool) {
	n := l.Refetches() + 1
	again = link.Link{URL: l.URL, Hops: refetchHops}
	again.SetRefetches(n)
	return again, n > 0
}

// IsRefetch reports whether l fetches a page of a lost archive again.
func IsRefetch(l link.Link) bool { return l.Refetches() > 0 }

// NoteRefetch tells in the log how often the page was fetched again.
func (v *Attempt) NoteRefetch() {
	if n := v.Task.Link.Refetches(); n > 0 {
		v.Notes = append(v.Notes, "refetch:"+strconv.Itoa(int(n)))
	}
}
