package crawl

import (
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// leaves reports whether the archive does not get a response, by Config.Keep and ObeyNoArchive. A redirect is kept if
// its own URL or its target is to be kept. A response that confirms an earlier one is kept if the earlier one was. It
// also records what the response says to robots, as far as it is known before the page is read. The error is one of
// this machine.
func (c *Crawler) leaves(v *visit, r *fetch.Response) (bool, error) {
	if r.Failure == nil {
		v.shown.Directives = parse.ParseRobotsTag(r.Header.Values("X-Robots-Tag"), c.cfg.Agent)
	}
	keep := c.cfg.Keep
	if k := c.Sheets.Table().URL(v.asked.URL).Keep; k != nil {
		keep = k
	}
	if keep.All() && !c.cfg.ObeyNoArchive || r.Wire.Size() == 0 {
		return false, nil
	}
	if v.confirmed() && v.outcome == Fetched {
		return v.before.Original.URL == "", nil
	}
	if !keep.All() && !matches(keep, v, r) {
		return true, nil
	}
	if !c.cfg.ObeyNoArchive || r.Failure != nil {
		return false, nil
	}
	if err := readDirectives(c, v, r); err != nil {
		return false, err
	}
	if v.shown.Directives.NoArchive {
		v.notes = append(v.notes, "noarchive")
	}
	return v.shown.Directives.NoArchive, nil
}

// matches reports whether a response is one of those to keep.
func matches(keep *sheet.Keep, v *visit, r *fetch.Response) bool {
	if keep.URL(v.asked.URL.String()) || r.Failure == nil && keep.Type(v.mime) {
		return true
	}
	to, ok := fetch.Redirect(r)
	if !ok || r.Failure != nil {
		return false
	}
	u, err := v.asked.URL.Resolve(to)
	return err == nil && keep.URL(u.String())
}

// readDirectives reads what a page says to robots, also an error page.
func readDirectives(c *Crawler, v *visit, r *fetch.Response) error {
	if v.outcome == Prerequisite {
		return nil // a robots.txt is no page
	}
	if err := c.decode(v, r); err != nil {
		return err
	}
	c.parse(v, r)
	if r.Status/100 != 2 { // nothing else of it counts
		v.decoded, v.parsed, v.shown.Body, v.shown.Cut = false, false, nil, false
	}
	return nil
}

// leave records that the archive does not get x.
func (v *visit) leave(x *warc.Exchange) error {
	v.notes = append(v.notes, "not-kept")
	if v.cut {
		digest, _, ok, err := warc.Digests(x)
		if err != nil {
			return err
		}
		if ok {
			v.print = printOf(200, digest[:])
		}
	}
	return nil
}
