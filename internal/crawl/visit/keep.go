package visit

import (
	"cmp"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Leaves reports whether the archive does not get a response, by Config.Keep and ObeyNoArchive. A redirect is kept if
// its own URL or its target is to be kept. A response that confirms an earlier one is kept if the earlier one was. It
// also records what the response says to robots, as far as it is known before the page is read. The error is one of
// this machine.
func (p *Pool) Leaves(v *Attempt, r *fetch.Response) (bool, error) {
	p.hear(v, r)
	keep := p.cfg.Keep
	if k := p.Sheets.Table().URL(v.Asked.URL).Keep; k != nil {
		keep = k
	}
	if keep.All() && !p.cfg.ObeyNoArchive || r.Wire.Size() == 0 {
		return false, nil
	}
	if v.Confirmed() && v.Outcome == Fetched {
		return v.Plan().Before.Original.URL == "", nil
	}
	if !keep.All() && !matches(keep, v, r) {
		return true, nil
	}
	if !p.cfg.ObeyNoArchive || r.Failure != nil {
		return false, nil
	}
	if err := p.readDirectives(v, r); err != nil {
		return false, err
	}
	if v.Page.Shown.Directives.NoArchive {
		v.Notes = append(v.Notes, "noarchive")
	}
	return v.Page.Shown.Directives.NoArchive, nil
}

// hear records what the header of a response says to robots.
func (p *Pool) hear(v *Attempt, r *fetch.Response) {
	if r.Failure == nil {
		v.Page.Shown.Directives = parse.ParseRobotsTag(r.Header.Values("X-Robots-Tag"), p.cfg.Agent)
	}
}

// matches reports whether a response is one of those to keep.
func matches(keep *sheet.Keep, v *Attempt, r *fetch.Response) bool {
	if keep.URL(v.Asked.URL.String()) || r.Failure == nil && keep.Type(v.Response.MIME) {
		return true
	}
	to, ok := fetch.Redirect(r)
	if !ok || r.Failure != nil {
		return false
	}
	u, err := v.Asked.URL.Resolve(to)
	return err == nil && keep.URL(u.String())
}

// readDirectives reads what a page says to robots, also an error page.
func (p *Pool) readDirectives(v *Attempt, r *fetch.Response) error {
	if v.Outcome == Prerequisite {
		return nil // a robots.txt is no page
	}
	if err := p.decode(v, r); err != nil {
		return err
	}
	p.parse(v, r)
	if r.Status/100 != 2 { // nothing else of it counts
		v.Page.decoded, v.Page.parsed, v.Page.Shown.Body, v.Page.Shown.Cut = false, false, nil, false
	}
	return nil
}

// leave records that the archive does not get x.
func (v *Attempt) leave(x *warc.Exchange) error {
	v.Notes = append(v.Notes, "not-kept")
	if v.Plan().cut {
		digest, _, ok, err := warc.Digests(x)
		if err != nil {
			return err
		}
		if ok {
			v.Plan().Print = printOf(200, digest[:])
		}
	}
	return nil
}

// keep writes an exchange to the archive.
func (p *Pool) keep(v *Attempt, r *fetch.Response) error {
	l := v.Asked
	if r.Wire.Size() == 0 {
		return nil // nothing was received; the log says why
	}
	x := exchangeOf(l, r)
	if v.Record.Left {
		return v.leave(&x)
	}
	v.describe(&x, r)
	if p.cfg.Outlinks {
		x.Metadata = v.appendOutlinks(x.Metadata, r) // v does not keep them
	}
	x.PayloadType = p.identify(v, r)
	if v.Confirmed() && v.Plan().Before.Original.URL != "" {
		x.NotModified = &v.Plan().Before.Original
	}
	if p.Omits(v) {
		x.Request, x.Response = nil, nil // only the metadata record remains
	}
	if x.Own = v.Contents().Judged; v.Contents().Duplicate {
		x.Same = &v.Contents().first
	}
	x.Here = v.App().Of != nil // an application reads the record by file and offset
	w, err := p.Archive.Write(&x)
	if err != nil {
		return err // the error names the URL
	}
	v.Record.Written, v.Record.Archived = w, true
	if v.Plan().cut {
		v.Plan().Print = printOf(200, w.BodyDigest[:])
	}
	switch {
	case v.Contents().Duplicate:
		v.Notes = append(v.Notes, "duplicate:content")
	case w.Revisit:
		if v.Notes = append(v.Notes, "duplicate:digest"); w.Earlier {
			v.Notes = append(v.Notes, "earlier-crawl")
		}
	case x.NotModified != nil:
		v.Notes = append(v.Notes, "warcRevisit:notModified")
	}
	return nil
}

// describe sets the content of the metadata record.
func (v *Attempt) describe(x *warc.Exchange, r *fetch.Response) {
	v.Record.meta = v.Record.meta[:0]
	note := func(name, value string) {
		if value != "" {
			v.Record.meta = append(v.Record.meta, warc.Field{Name: name, Value: value})
		}
	}
	if v.Asked.Via == "" && v.Asked.Hops == "" {
		v.Record.meta = append(v.Record.meta, warc.Field{Name: "seed"})
	}
	note("fetchTimeMs", strconv.FormatInt(r.Duration.Milliseconds(), 10))
	note(warc.FieldVia, v.Asked.Via)
	note(warc.FieldHops, v.Asked.Hops)
	note("sourceTag", v.Asked.Seed)
	if v.Outcome == Fetched && v.Response.Status/100 == 2 && !v.Contents().Duplicate {
		languages := ""
		if v.Page.parsed && v.Page.HTML.Kind != parse.Other {
			note(warc.FieldCharset, message.CharsetName(v.Page.HTML.Charset))
			languages = v.Page.HTML.Language
		}
		note(warc.FieldLanguages, cmp.Or(languages, message.Languages(r.Header.Get("Content-Language"))))
	}
	note("robots", v.Page.Shown.Directives.String())
	note(warc.FieldCategory, v.Boundary().Topic)
	v.describeNear(note)
	if v.Response.Failure != 0 {
		note("failure", v.Detail)
	}
	x.Metadata = v.Record.meta
}

// identify returns the media type that the first bytes of the body show.
func (p *Pool) identify(v *Attempt, r *fetch.Response) string {
	if r.Failure != nil || r.Wire.Size() <= int64(r.HeadLen) {
		return ""
	}
	body := v.Page.Shown.Body
	if !v.Page.decoded {
		body, _, _ = r.Decode(message.TypeBytes) // an error leaves what can be decoded
	}
	return message.Identify(body, v.Response.MIME)
}
