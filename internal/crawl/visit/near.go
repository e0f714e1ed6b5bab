package visit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/near"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
)

// NearDuplicates finds pages that are nearly the same as an archived one. *index.Index implements it. Safe for
// concurrent use.
type NearDuplicates interface {
	// Find returns the archived page of which a page with this Sketch is a near-duplicate. If there is none, claim is
	// not nil, and the crawl ends it. It blocks for a bounded time.
	Find(ctx context.Context, s near.Sketch, page index.Original) (first *index.Original, claim *index.Claim, err error)
	// Syncing is told that a sync of the journal begins. The crawl calls durable when the sync has ended.
	Syncing() (durable func())
}

// reading is memory for the text of a page.
type reading struct {
	text []byte
	of   near.Scratch
}

var readings = sync.Pool{New: func() any { return new(reading) }}

// maxReading bounds the memory that is kept for the next page, in bytes.
const maxReading = 1 << 20

// resemble looks for an archived page of which v's page, which has been parsed, is a near-duplicate. A page that was
// cut off is not compared. An earlier version of the same page does not count.
func (p *Pool) resemble(ctx context.Context, v *Attempt, body []byte, cut bool) error {
	if p.Near == nil || v.Record.Left || cut || v.Response.Truncated != "" {
		return nil
	}
	m := readings.Get().(*reading)
	defer readings.Put(m)
	m.text = v.Page.HTML.AppendProse(m.text[:0], body)
	s, ok := m.of.Of(m.text)
	if cap(m.text) > maxReading {
		m.text = nil
	}
	if !ok {
		return nil
	}
	page := index.Original{URL: v.Asked.URL.String(), Date: v.Response.Began}
	first, claim, err := p.Near.Find(ctx, s, page)
	switch {
	case errors.Is(err, index.ErrClosed) || ctx.Err() != nil:
		if claim != nil {
			claim.Release()
		}
		return nil // the page counts as new
	case err != nil:
		return fmt.Errorf("near-duplicates of %s: %w", page.URL, err)
	}
	v.Near().Original, v.Near().claim = first, claim
	if first != nil {
		v.Notes = append(v.Notes, "near-duplicate:"+strings.ReplaceAll(first.URL, ",", "%2C"))
	}
	return nil
}

// Omits reports that the archive gets a note in place of the page, and that its links are not followed.
func (p *Pool) Omits(v *Attempt) bool { return v.Near().Original != nil && p.cfg.DropNear }

// describeNear adds the fields of the metadata record that name the other page.
func (v *Attempt) describeNear(note func(name, value string)) {
	if v.Near().Original != nil {
		note(warc.FieldNear, v.Near().Original.URL)
		note("nearDuplicateOfDate", v.Near().Original.Date.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
}

// EndClaim tells Near whether v's page is in the archive and finished. The finish is in the journal's present batch.
func (v *Attempt) EndClaim(finished bool) {
	c := v.Near().claim
	v.Near().claim = nil
	switch {
	case c == nil:
	case finished && v.Record.Archived:
		c.Archived(v.Response.Began)
	default:
		c.Release()
	}
}

// A NearNote says whether another page has nearly the same text.
type NearNote struct {
	Original *index.Original // that page
	claim    *index.Claim    // others may become near-duplicates of this page
}

func (n *NearNote) Reset() { *n = NearNote{} }

func (v *Attempt) Near() *NearNote { return Annotated[NearNote](v) }
