package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Strategy decides what is fetched next; how, is the Crawler's: robots.txt,
// quiet times, retries, archive and journal are the same for all of them. This
// is Polybot's line between crawling application and crawling system
// (Shkapenyuk and Suel, ICDE 2002, section 2). No Strategy is breadth-first.
type Strategy interface {
	// Follow says what becomes of a link of p. It may set l.Level, the
	// priority among the links of l's host and among the hosts that are due: 0
	// is the ordinary one, higher come first. Whether l is in scope is asked
	// after it, and whether it is new. Many workers call it at once; p and what
	// l points to are lent until it returns.
	Follow(p *Page, l *weburl.Link) Choice
}

// A Choice is what a Strategy makes of a link.
type Choice uint8

const (
	// Take is for a link that is fetched, if it is in scope and new.
	Take Choice = iota
	// Offer is for one that is not, but that a Planner is shown with the visit
	// of its page, if it is in scope.
	Offer
	// Drop is for one that is neither.
	Drop
)

// A Page is a response, for the Strategy and for Pages.
type Page struct {
	Link   weburl.Link // the page, and how the crawl came to it
	Status int
	Header fetch.Header
	Body   []byte      // decoded; nil unless the status is 2xx, and for robots.txt
	Parsed *parse.Page // likewise, and nil for a page that another agent had first
	Cut    bool        // Body is not all of it
	// Memo belongs to the Strategy and to Pages: it lasts from the first call for this
	// page to the last.
	Memo any

	// What follows is set for Pages only.

	Began time.Time // the request
	// Duplicate: the archive has the same content already, and refers to it.
	Duplicate bool
	// Again: a Planner wanted the page again.
	Again bool
}

// A Planner is a Strategy that also decides when. It is told how each visit
// has ended, and asked for what it wants fetched. One goroutine calls these
// methods, the dispatcher; an error ends the run.
//
// What it remembers of a URL is journaled with the URL's finish, in one batch,
// and comes back after a kill. What it wants has to follow from that alone:
// what it wanted before a kill it is asked for again.
type Planner interface {
	Strategy
	// Visited takes in what came of a URL, and says what is to be remembered
	// of it: nothing (nil) leaves what was said before. The bytes are lent
	// until the next call.
	Visited(v *Visit) (state []byte, err error)
	// Restore takes back what Visited said last of a URL, before the first
	// Next. l has no Via.
	Restore(l weburl.Link, state []byte) error
	// Next gives out what is wanted at now; nil is nothing. Then wake is when
	// to ask again; zero: not before the next Visited.
	Next(now time.Time) (w *Wanted, wake time.Time, err error)
}

// A Postponer is a Planner that takes back what Next gave out with a Before: it
// is wanted at until, or later. A Planner that can want more URLs of a host
// again than the host answers in time has to be one: others would have to wait
// for that host.
type Postponer interface {
	PutOff(w *Wanted, until time.Time) error
}

// A Forgetter is a Planner that can be told to want nothing of a host any more
// that was visited last before at, also of what Restore brings. The operator has
// dropped the host's links.
type Forgetter interface {
	Forget(host string, at time.Time)
}

// A Retrier is a Planner that remembers URLs which brought no response. Retry
// makes it forget u: u is visited again as if it were new. It is called before
// the first Next.
type Retrier interface {
	Retry(u weburl.URL)
}

// Wanted is a link that a Planner wants fetched. It is the Crawler's from then on.
type Wanted struct {
	Link weburl.Link
	// Before is what is known of a URL that was fetched before and is to be
	// fetched again. Without it the link is taken in as if a page named it: in
	// its turn, and only if it is new.
	Before *Before
	// Returned says that a Postponer had it put off, and its time has come.
	Returned bool
}

// Before is an earlier response to a URL, with which the next is compared.
type Before struct {
	If    fetch.Condition // by which the server can say that nothing changed
	Print uint64          // of the content
	// Original is the archive's record of that content, and Digest that
	// record's payload digest: what a revisit record refers to.
	Original warc.Original
	Digest   [20]byte
}

// A Visit is the end of a URL's turn.
type Visit struct {
	Link    weburl.Link // lent until Visited returns
	Outcome Outcome
	Status  int // of HTTP; 0 without a response
	Began   time.Time
	Now     time.Time
	// Again says that the Planner wanted it with a Before; Unchanged, that the
	// content is still that: the server said so (304), or sent it again.
	// Compared says that there is an answer to this question: there is none
	// without a response, and if only one of the two came to its end.
	Again, Unchanged, Compared bool
	// Now's response, for the next time. Print is 0 where there is nothing that
	// could be compared.
	Response Before
	Modified time.Time // the Last-Modified of the response; zero: not told
	// Offered are the links of the page that Follow offered, in its order,
	// without those out of scope. They may be kept.
	Offered []weburl.Link
}
