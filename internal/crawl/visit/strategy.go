package visit

import (
	"errors"
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Strategy decides what the crawl fetches next. The Crawler decides how: robots.txt, delays,
// retries, archive and journal are the same for all strategies. Polybot, a crawler (Shkapenyuk
// and Suel, ICDE 2002, section 2), divides the work in the same way. Without a Strategy a crawl
// is breadth-first.
type Strategy interface {
	// Follow decides about a link of p. It may set l.Level, the priority among the links of
	// l's host and among due hosts: 0 is the default, and higher levels come first. The
	// Crawler checks the scope, and whether l is new, after Follow. Workers call it
	// concurrently. p and the memory of l are valid until it returns.
	Follow(p *Page, l *link.Link) Choice
}

// A Reader is a Strategy that judges a link by what its page says of it. Follow finds the anchor texts in
// Page.Parsed, and the Crawler does not call it for links that it knows to be no longer new.
type Reader interface {
	Strategy
	// SeedLevel returns the level of the seeds.
	SeedLevel() uint8
	// Passed receives a page that this agent has fetched and that goes to another agent because of its text. That agent
	// follows its links. Workers call it concurrently, and p is valid until it returns.
	Passed(p *Page)
}

// A Choice is a Strategy's decision about a link.
type Choice uint8

const (
	// Take fetches the link if it is in scope and new.
	Take Choice = iota
	// Offer does not fetch the link, but shows it to a Planner with the visit of its page if
	// it is in scope.
	Offer
	// Drop ignores the link.
	Drop
)

// A Page is a response, for the Strategy and for Pages.
type Page struct {
	Link   link.Link // the page, and how the crawl found it
	Status int
	Header fetch.Header
	Body   []byte      // decoded; nil unless the status is 2xx, and for robots.txt
	Parsed *parse.Page // likewise, and nil for a duplicate of another agent's page
	Cut    bool        // Body is incomplete
	MIME   string      // media type without parameters, in lower case, by the header and the body
	// Memo is for the Strategy and for Pages. It keeps its value between the calls for this
	// page.
	Memo any

	// The fields below are set for Pages only.

	Began time.Time     // start of the request
	Took  time.Duration // from then to the end of the response
	Size  int64         // bytes received, without the header
	// Directives are what the page, or the header of another response, says to robots.
	Directives parse.Directives
	// Written is the record in the archive; its File is empty if the archive has none.
	Written warc.Written
	// Duplicate reports that the archive already has the same content and refers to it.
	Duplicate bool
	// Again reports that a Planner wanted the page again.
	Again bool

	archive *warc.Writer
}

// ShowRecord makes the record in the archive readable for other programs; see warc.Writer.Show. Only Pages may call it.
func (p *Page) ShowRecord() error {
	if p.Written.File == "" {
		return nil
	}
	return p.archive.Show(p.Written)
}

// A Planner is a Strategy that also decides when the crawl fetches a URL. The Crawler tells it
// how each visit ended, and asks it which URLs to fetch. One goroutine, the dispatcher, calls
// these methods. An error ends the run.
//
// The journal stores a Planner's state of a URL in one batch with the URL's finish, and the
// Planner gets the state back after a kill. What the Planner wants must follow from these
// states alone: after a kill it must want the same URLs again.
type Planner interface {
	Strategy
	// Visited receives the end of a URL's visits and returns the Planner's new state of the
	// URL, of at most MaxState bytes. Nil keeps the state before. The bytes must stay valid until
	// the next call.
	Visited(v *Visit) (state []byte, err error)
	// Restore receives the last state of a URL from an earlier run, before the first Next; or one
	// that another agent had, at any time. l has no Via. The error is ErrState for bytes that
	// Visited cannot have returned.
	Restore(l link.Link, state []byte) error
	// Next returns a URL to fetch at now, or nil. With nil, wake is the time to ask again;
	// zero means not before the next Visited.
	Next(now time.Time) (w *Wanted, wake time.Time, err error)
}

// MaxState bounds the state of a URL in bytes. Other agents never get a larger one: to them, this agent has no state of
// the URL. So it is lost if another agent takes over the URL's host.
const MaxState = 64 << 10

// ErrState reports a state that a Planner cannot read.
var ErrState = errors.New("unreadable state of a page")

// A Postponer is a Planner that takes back a URL which Next returned with a Before. It must
// not return the URL again before until. A Planner that can want more URLs of a host than the
// host can answer must be a Postponer; otherwise other hosts would wait for that host.
type Postponer interface {
	PutOff(w *Wanted, until time.Time) error
}

// A Mover is a Postponer whose state of a URL moves to the agent that crawls the URL's host. The crawl
// moves it when Next returns the URL with a Before. The other agent's Planner gets it with Restore.
type Mover interface {
	Postponer
	// TakeOut returns the state of a URL that Next has returned, and forgets the URL.
	TakeOut(w *Wanted) (state []byte, err error)
}

// A Forgetter is a Planner that forgets URLs of a host whose links the operator has dropped. It
// must not want URLs again whose last visit was before at, including those of Restore.
type Forgetter interface {
	Forget(host string, at time.Time)
}

// A Retrier is a Planner that remembers URLs without a response. Retry makes it forget u, so
// that u is visited again as if it were new. The Crawler calls Retry before the first Next.
type Retrier interface {
	Retry(u weburl.URL)
}

// A Sharer is a Planner whose work the agents of a cluster share. The work consists of tasks, and
// each task has the name of a host that does not exist: the agent that owns this host does the task.
// All agents answer to each other what they know of URLs. So a URL that Next returns without a Before
// is a question, too: its owner fetches it, and Told brings the answer. A crawl without other agents
// calls Restore and Visited only.
type Sharer interface {
	Planner
	// Share tells which tasks are this agent's from now on. The Planner forgets the results of all
	// other tasks, and does the tasks that are new here from their beginning. Next returns URLs
	// again whose answers are still missing. Restore may be called after Share.
	Share(mine func(task string) bool)
	// Recall returns the state of a URL, and the link by which the URL was found. A nil state means
	// that the Planner has none. state is valid until the next call of a method.
	Recall(u weburl.URL) (l link.Link, state []byte, err error)
	// Told receives what another agent knows of a URL. A nil state means that no agent knows
	// anything of it, although it is finished. An error means that state is not valid.
	Told(l link.Link, state []byte) error
}

// Wanted is a link that a Planner wants to be fetched. The Crawler owns it after Next.
type Wanted struct {
	Link link.Link
	// Before is the earlier response of a URL that is to be fetched again. If it is nil, the
	// crawl accepts the link as if it were on a page: in its turn, and only if it is new.
	Before *Before
	// Returned reports that the URL was put off before, and its time has come.
	Returned bool
}

// Before is an earlier response to a URL, to compare the next response with.
type Before struct {
	If    fetch.Condition // for a conditional request
	Print uint64          // fingerprint of the content
	// Original is the archive's record of that content, and Digest warc.Written.BodyDigest. A
	// revisit record refers to them. Without an ID, the record is in another agent's archive.
	Original warc.Original
	Digest   [20]byte
}

// A Visit tells a Planner how the visits to a URL ended.
type Visit struct {
	Link    link.Link // valid until Visited returns
	Outcome Outcome
	Status  int // HTTP status; 0 without a response
	Began   time.Time
	Now     time.Time
	// Again reports that the Planner wanted the URL with a Before. Compared reports that the
	// two contents could be compared: not so without a response, or if only one content is
	// complete. Unchanged reports that the content is the same: the server said so (304), or
	// sent the same content.
	Again, Unchanged, Compared bool
	// Plain reports that no https connection could be made to a URL that was given without a scheme.
	// Offered has its http URL, which takes its place.
	Plain bool
	// Response is this response, for the next comparison. Its Print is 0 if the content cannot
	// be compared.
	Response Before
	Modified time.Time // Last-Modified of the response; zero: none
	// Offered are the links of the page that Follow offered and that are in scope, in the
	// page's order. The Planner may keep them.
	Offered []link.Link
}
