package crawl

import (
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// logs are the lines about finished URLs: crawl.log and the link log, and the pages that this agent keeps.
type logs struct {
	crawl    *report.Log
	links    *linklog.Writer // nil: no link log
	visits   *visit.Pool
	failures *retry.Failures

	topics map[string]int64 // pages that this agent keeps, by category; see countKept
}

// finishOf returns the finish of a visit, as far as the visit tells it. exhausted says that the URL had all its tries.
func (l *logs) finishOf(v *visit.Attempt, exhausted bool) state.Finish {
	f := state.Finish{
		Link: link.Link{URL: v.Asked.URL, Hops: v.Asked.Hops, Seed: v.Asked.Seed, Ext: v.Asked.Ext},
		Code: v.Code(exhausted), Kind: v.ErrorKind(), Cause: l.failures.CauseOf(v), Mime: v.Response.MIME,
		Size: v.Response.Size, Began: v.Response.Began, Took: v.Response.Took,
		Delay: max(v.Robots.Delay, v.Robots.Auto),
	}
	if !v.Boundary().Sent.URL.IsZero() {
		f.Link.Ext = v.Boundary().Sent.Ext
	}
	if v.Response.Truncated != "" {
		f.Flags |= state.FlagTruncated
	}
	if v.Record.Left {
		f.Flags |= state.FlagUnkept
	}
	if v.Near().Original != nil {
		f.Flags |= state.FlagNear
	}
	if v.Record.Archived {
		w := &v.Record.Written
		f.Digest, f.Body, f.File, f.End = w.PayloadDigest, w.BodyDigest, w.File, w.End
		if n := v.Contents(); n.Judged && !n.Duplicate && !l.visits.Omits(v) {
			first := w.Original
			f.First = &first
		}
		if w.Revisit {
			if f.Flags |= state.FlagDuplicate; w.Earlier {
				f.Flags |= state.FlagEarlier
			}
		}
	}
	return f
}

func visitOf(f *state.Finish) report.Visit {
	file := f.Link.IsFile()
	return report.Visit{
		Host: f.Link.URL.Host(), Seed: f.Link.Seed, Code: f.Code, MIME: f.Mime, Error: f.Kind,
		Cause: f.Cause, Bytes: f.Size, Took: f.Took,
		Page: f.IsPage() && !file, File: f.IsPage() && file, Guess: f.Link.IsGuess(),
		FromSeed: retry.IsSeed(f.Link), Robots: f.IsRobots(), Near: f.IsNear(),
		Duplicate: f.Flags&state.FlagShared == state.FlagDuplicate, Truncated: f.IsTruncated(),
		Earlier: f.IsEarlier(),
		Again:   f.Flags&state.FlagAgain != 0, Unchanged: f.Flags&state.FlagUnchanged != 0,
		Unknown: f.Flags&state.FlagUnknown != 0, Unkept: f.Flags&state.FlagShared == state.FlagUnkept,
		Shared: f.IsShared(), Exported: f.Exported(), Imported: f.Imported(),
		Refetched: visit.IsRefetch(f.Link) && f.Link.App() == "", // otherwise its archive is not lost: see Recollect
	}
}

// write writes the line of a finished URL into crawl.log.
func (l *logs) write(v *visit.Attempt, f state.Finish, now time.Time) {
	line := report.Line{
		Time: now, Code: f.Code, Size: -1, URL: v.Asked.URL.String(), Hops: v.Asked.Hops, Via: v.Asked.Via,
		MIME: f.Mime, Thread: v.Thread, Began: v.Response.Began, Took: v.Response.Took, Seed: v.Asked.Seed,
		Notes: v.Notes,
	}
	if !v.Response.Began.IsZero() {
		line.Size = v.Response.Content
	}
	if l.hasPage(v) {
		line.Digest, line.HasDigest = f.Digest, true
	}
	switch {
	case v.Asked.IsGuess():
		line.Notes = append(line.Notes, "sitemap-guess")
	case v.Asked.IsSitemap():
		line.Notes = append(line.Notes, "sitemap")
	}
	if f.Kind != "" {
		line.Notes = append(line.Notes, "error:"+f.Kind)
	}
	if f.Cause != "" {
		line.Notes = append(line.Notes, "cause:"+f.Cause)
	}
	if v.Robots.Rule != "" {
		line.Notes = append(line.Notes, "rule:"+v.Robots.Rule)
	}
	l.crawl.Write(line)
	l.countKept(v)
}

// hasPage reports that the archive has the response, or a revisit record that names an equal one.
func (l *logs) hasPage(v *visit.Attempt) bool {
	return v.Record.Archived && !v.Confirmed() && !l.visits.Omits(v)
}

// writeLinks writes its line into the link log.
func (l *logs) writeLinks(v *visit.Attempt, f *state.Finish, now time.Time) {
	if l.links == nil {
		return
	}
	line := linklog.Line{URL: v.Asked.URL.String(), Time: now, Status: f.Code, Error: f.Kind, Links: &v.LinkLog().Out}
	// Another agent may have fetched an imported page again meanwhile. It may also tell a time that cannot be.
	if fetched := f.Began.Add(f.Took); f.Imported() && fetched.Before(now) && fetched.Unix() > 0 {
		line.Time = fetched
	}
	if line.Error == "" {
		line.Error = report.RedirectProblem(v.Notes)
	}
	l.links.Write(&line)
}

// countKept counts a page that this agent keeps by its category, unless the response before is in this archive, too.
func (l *logs) countKept(v *visit.Attempt) {
	before := v.Plan().Before
	if v.Boundary().Topic == "" || !l.hasPage(v) || before != nil && before.Original.ID != [16]byte{} {
		return
	}
	if l.topics == nil {
		l.topics = map[string]int64{}
	}
	l.topics[v.Boundary().Topic]++
}

// countCategories adds to the categories of this agent how many pages of each it keeps, and the others that it keeps
// pages of.
func (l *logs) countCategories(list []report.Category) []report.Category {
	for i := range list {
		list[i].Pages = l.topics[list[i].Name]
	}
	for name, pages := range l.topics {
		if !slices.ContainsFunc(list, func(k report.Category) bool { return k.Name == name }) {
			list = append(list, report.Category{Name: name, Pages: pages})
		}
	}
	slices.SortFunc(list, func(a, b report.Category) int { return strings.Compare(a.Name, b.Name) })
	return list
}
