package visit

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// Contents answer: which page with this content came first? Safe for concurrent use.
type Contents interface {
	// First returns the page that is archived in full with the payload of x, of size bytes, if another page has it.
	// asked is false if contents of its kind are not compared. It blocks for a bounded time.
	First(ctx context.Context, x *warc.Exchange, size int64) (first warc.Original, duplicate, asked bool, err error)
}

// compare looks up whether another agent's page has the content of r. A page that is fetched again is archived in full.
func (p *Pool) compare(ctx context.Context, v *Attempt, r *fetch.Response) (err error) {
	if p.Contents == nil || v.Response.Failure != 0 || r.Status/100 != 2 || v.Record.Left || v.App().Of != nil {
		return nil
	}
	x := exchangeOf(v.Asked, r)
	n := v.Contents()
	n.first, n.Duplicate, n.Judged, err = p.Contents.First(ctx, &x, r.Wire.Size()-int64(r.HeadLen))
	if IsRefetch(v.Task.Link) { // the first page may be in a lost archive
		n.first, n.Duplicate = warc.Original{}, false
	}
	return err
}

// A ContentsNote says whether another page had the content first.
type ContentsNote struct {
	Judged    bool // Contents has answered
	Duplicate bool
	first     warc.Original // the page that had the content first
}

func (n *ContentsNote) Reset() { *n = ContentsNote{} }

func (v *Attempt) Contents() *ContentsNote { return Annotated[ContentsNote](v) }
