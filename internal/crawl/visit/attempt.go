package visit

import (
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// An Attempt is one visit of one URL. The dispatcher makes it, one worker fills it, and the dispatcher settles and
// reuses it.
//
// What only one feature needs is in an annotation of that feature, so that a new feature adds no field.
type Attempt struct {
	Task    frontier.Task
	Asked   link.Link // the request: Task.Link, or a robots.txt for it
	Thread  int
	worker  *worker // the worker that makes the visit
	Drops   uint64  // number of the last drop when the visit was taken
	Last    bool    // the host or the origin is in trouble: no retries
	Untried bool    // the origin has failed too often: the URL fails without a request
	Plain   bool    // no https connection: the http URL is accepted instead
	Outcome Outcome
	Err     error   // a failure of this machine
	Permit  *Permit // nil: the visit uses no lease
	// Within bounds the time to connect; 0: as for all. HostLives says that pages of the host were fetched.
	Within    time.Duration
	HostLives bool
	Turn      rate.Turn

	Lookup   Lookup
	Response Response
	Notes    []string // for crawl.log
	Detail   string
	Record   Record
	Page     Content
	Robots   RobotsAnswer
	Links    // of the page

	annotations []Annotation
}

// A Lookup is the result of a look-up of the host's address.
type Lookup struct {
	Done       bool
	Addr       netip.Addr
	Expires    time.Time
	NoSuchHost bool
}

// A Response is what the exchange was like.
type Response struct {
	Status     int
	Fail       *fetch.Failure
	Failure    fetch.Kind // 0: none
	MIME       string
	Size       int64 // bytes received, with the header
	Content    int64 // bytes received, without the header
	Truncated  string
	Began      time.Time
	SentAt     time.Time // of the request; zero: it was not sent
	Took       time.Duration
	RetryAfter time.Duration
	Slow       bool   // the server asked for fewer requests: 429, 503
	Cookies    uint64 // a hash of those that the request had
}

// A Record is the response in the archive.
type Record struct {
	Written  warc.Written
	Archived bool
	Left     bool // the archive does not get the response
	meta     []warc.Field
}

// Content is what a response says to a reader.
type Content struct {
	HTML       parse.Page
	Shown      Page   // for Strategy and Pages
	decoded    bool   // Shown has the body
	parsed     bool   // HTML has its links
	Stops      bool   // Pages has stopped the run
	InHost     inHost // depths of the links that stay in the host
	References int    // number of references on the page, before any check
}

// A RobotsAnswer is what robots.txt says about a visit, and what a visit says about robots.txt.
type RobotsAnswer struct {
	Rule    string
	Delay   time.Duration  // Crawl-delay
	Auto    time.Duration  // the delay by the response times, see autoDelay
	Until   time.Time      // next time to fetch it
	Errand  link.Link      // a robots.txt to fetch from another host
	Entries []robots.Entry // of the origin of the URL, and of that of the robots.txt
}

// Reset makes v a visit of t that has not begun. v keeps its memory.
func (v *Attempt) Reset(t frontier.Task) {
	*v = Attempt{Task: t, Asked: t.Link, Links: Links{v.Found[:0], v.Encoded[:0], v.Skipped[:0]}, Notes: v.Notes[:0],
		Record: Record{meta: v.Record.meta[:0]}, Page: Content{HTML: v.Page.HTML}, annotations: v.annotations}
	for _, a := range v.annotations {
		a.Reset()
	}
}

// An Annotation is what one feature notes about a visit.
type Annotation interface {
	// Reset makes the annotation say nothing, for the next visit.
	Reset()
}

// Annotated returns the annotation of type T of v, and makes it when it is asked for the first time. A visit keeps its
// annotations when it is used again.
func Annotated[T any, P interface {
	*T
	Annotation
}](v *Attempt) P {
	for _, a := range v.annotations {
		if p, ok := a.(P); ok {
			return p
		}
	}
	p := P(new(T))
	v.annotations = append(v.annotations, p)
	return p
}
