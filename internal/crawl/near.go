package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

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
func (c *Crawler) resemble(ctx context.Context, v *visit, body []byte, cut bool) error {
	if c.Near == nil || v.unkept || cut || v.truncated != "" {
		return nil
	}
	m := readings.Get().(*reading)
	defer readings.Put(m)
	m.text = v.page.AppendProse(m.text[:0], body)
	s, ok := m.of.Of(m.text)
	if cap(m.text) > maxReading {
		m.text = nil
	}
	if !ok {
		return nil
	}
	page := index.Original{URL: v.asked.URL.String(), Date: v.began}
	first, claim, err := c.Near.Find(ctx, s, page)
	switch {
	case errors.Is(err, index.ErrClosed) || ctx.Err() != nil:
		if claim != nil {
			claim.Release()
		}
		return nil // the page counts as new
	case err != nil:
		return fmt.Errorf("near-duplicates of %s: %w", page.URL, err)
	}
	v.near, v.claim = first, claim
	if first != nil {
		v.notes = append(v.notes, "near-duplicate:"+strings.ReplaceAll(first.URL, ",", "%2C"))
	}
	return nil
}

// omits reports that the archive gets a note in place of the page, and that its links are not followed.
func (c *Crawler) omits(v *visit) bool { return v.near != nil && c.cfg.DropNear }

// hasPage reports that the archive has the response, or a revisit record that names an equal one.
func (c *Crawler) hasPage(v *visit) bool { return v.archived && !v.confirmed() && !c.omits(v) }

// describeNear adds the fields of the metadata record that name the other page.
func (v *visit) describeNear(note func(name, value string)) {
	if v.near != nil {
		note("nearDuplicateOf", v.near.URL)
		note("nearDuplicateOfDate", v.near.Date.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
}

// endClaim tells Near whether v's page is in the archive and finished. The finish is in the journal's present batch.
func (v *visit) endClaim(finished bool) {
	c := v.claim
	v.claim = nil
	switch {
	case c == nil:
	case finished && v.archived:
		c.Archived(v.began)
	default:
		c.Release()
	}
}

// nearSyncing tells Near that a sync of the journal begins, and returns what to call when it has ended.
func (c *Crawler) nearSyncing() (durable func()) {
	if c.Near == nil {
		return func() {}
	}
	return c.Near.Syncing()
}
