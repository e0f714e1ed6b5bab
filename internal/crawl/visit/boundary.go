package visit

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// If the agents of a cluster divide pages by content, a fetched page may belong to another agent. X4, a
// topic-partitioned crawler (paper, section 1), calls it a boundary page.
//
//	fetch -> export: stored for the other agent -> finish, and the page as a link with a number, in one batch
//	import: read, archived, its links taken in as if this agent had fetched it -> a finish without a number
//
// The agent that fetched the URL knows it as finished, and counts the page. The other agent archives the page, looks
// for duplicates and follows its links. If a Planner wants the URL again, the agent that fetched it does so. A new
// version goes to where it belongs by then. Of an unchanged page the visiting agent archives a revisit record, which
// refers to the record of the other agent.
//
// In another form (section 7) the page stays where it was fetched, and its links alone travel. The agents of the
// page's category divide them by their hosts:
//
//	fetch -> archived -> finish, and the links with their destinations, in one batch

// Boundary answers: which agent keeps this page, and who follows its links? Safe for concurrent use.
type Boundary interface {
	// Keeps reports whether this agent fetches links with a destination.
	Keeps(to link.Destination) bool
	// Export stores the page of x, which was fetched for l, if it belongs to another agent. Then away is true, and page
	// is the link that stands for it. If not the page but its links go to the agents of its category, page has the
	// category as its destination. category is empty if pages have none. text appends the text that a reader of the
	// page sees. main is the main part of it, or empty.
	Export(ctx context.Context, l link.Link, x *warc.Exchange, text func([]byte) (prose, main []byte, err error)) (
		page link.Link, category string, away bool, err error)
}

// export stores the page of a response for the agent where it belongs, if that is another one. away reports that. If
// links alone travel, it tells the page's category.
func (p *Pool) export(ctx context.Context, v *Attempt, r *fetch.Response) (away bool, err error) {
	if p.Boundary == nil || v.Response.Failure != 0 || r.Status/100 != 2 || v.Record.Left || v.App().Of != nil {
		return false, nil
	}
	x := exchangeOf(v.Asked, r)
	v.describe(&x, r)
	fingerprint := func() error {
		if err := p.decode(v, r); err != nil {
			return err
		}
		v.fingerprint(r, v.Page.Shown.Body, v.Page.Shown.Cut)
		return nil
	}
	if v.isElsewhere() {
		if err := fingerprint(); err != nil || v.Unchanged() { // then it stays with its earlier version
			return false, err
		}
	}
	text := func(dst []byte) (prose, main []byte, err error) {
		if err := p.decode(v, r); err != nil {
			return dst, nil, err
		}
		p.parse(v, r)
		prose = v.Page.HTML.AppendProse(dst, v.Page.Shown.Body)
		return prose, v.Page.HTML.MainText(), nil
	}
	page, category, away, err := p.Boundary.Export(ctx, v.Task.Link, &x, text)
	v.Sorted(category)
	if err != nil || !away {
		to, _ := page.Destination()
		v.Boundary().category = to.Category
		return false, err
	}
	if p.planner != nil {
		if err := fingerprint(); err != nil {
			return false, err
		}
		digest, stored, _, err := warc.Digests(&x)
		if err != nil {
			return false, err
		}
		page.SetVersion(binary.BigEndian.Uint64(digest[:]))
		v.Record.Written.BodyDigest, v.Record.Written.PayloadDigest = digest, stored
		v.Record.Written.Original = warc.Original{URL: x.URL, Date: x.Began.Truncate(time.Millisecond)}
		if stored != digest {
			v.Record.Written.Original.Stored = stored
		}
	}
	v.Boundary().Sent = page
	v.Notes = append(v.Notes, "exported")
	if p.reader != nil && v.Page.parsed { // otherwise its text does not matter
		shown := &v.Page.Shown
		shown.Link, shown.Status, shown.Header, shown.MIME = v.Task.Link, r.Status, r.Header, v.Response.MIME
		shown.Parsed = &v.Page.HTML
		p.reader.Passed(shown)
	}
	return true, nil
}

// Sorted notes the category of v's page.
func (v *Attempt) Sorted(category string) {
	if v.Boundary().Topic = category; category != "" {
		v.Notes = append(v.Notes, "category:"+category)
	}
}

// destination returns where a link goes whose URL has key k. away is false if the page's category does not say it, or
// if this agent follows the link.
func (f *Follower) destination(v *Attempt, k link.Key) (to link.Destination, away bool) {
	if v.Boundary().category == 0 {
		return to, false
	}
	to = link.Destination{Category: v.Boundary().category, Hash: k.Host}
	return to, !f.boundary.Keeps(to)
}

// isKnown reports whether a link of v's page was accepted, as far as f.known can tell.
func (f *Follower) isKnown(v *Attempt, k link.Key) bool {
	if to, away := f.destination(v, k); away {
		k = k.To(to)
	}
	return f.known.has(k.For(v.appName()))
}

// A Replayer makes a response of bytes that another agent has received.
type Replayer interface {
	Replay(x fetch.Received, wire io.Reader) (*fetch.Response, error)
}

// A BoundaryNote says which agent keeps the page.
type BoundaryNote struct {
	Sent     link.Link // the page, which is stored for another agent; zero: it belongs here
	category uint16    // links go to the agents of this category of pages; 0: by their hosts
	Topic    string    // the name of the page's category; empty: none is known
}

func (n *BoundaryNote) Reset() { *n = BoundaryNote{} }

func (v *Attempt) Boundary() *BoundaryNote { return Annotated[BoundaryNote](v) }
