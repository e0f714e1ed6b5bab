package applications

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The finished URLs of an application whose pages are collected are in a log of its own at the agent that finished
// them, in the order of their finishes. A finish is in the journal only if its line is in the log. So after a kill at
// any moment, a URL is in the log or is visited again. A line whose finish was lost stays, so the page may come twice.

// A Delivery is a finished URL of an application.
type Delivery struct {
	Position int64  `json:"position,omitempty"` // of the next page: it acknowledges this page and all before it
	URL      string `json:"url"`
	Status   int    `json:"status"`          // HTTP status, or a negative code as in crawl.log
	Error    string `json:"error,omitempty"` // kind of the error
	Via      string `json:"via,omitempty"`
	Hops     string `json:"hops,omitempty"`
	Time     string `json:"time"` // start of the request, RFC 3339; of the finish if there was none
	MIME     string `json:"mime,omitempty"`
	Size     int64  `json:"size,omitempty"`   // bytes of the body as it was received
	Digest   string `json:"digest,omitempty"` // of the payload: "sha1:…"
	// File and Offset are where this agent's archive has the record. File is empty if it has none: the URL has no
	// response, or Note has "shared:" and the name of the agent whose archive has it.
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Note   string `json:"note,omitempty"`   // as in crawl.log, separated by commas
	Robots string `json:"robots,omitempty"` // what the page says to robots, as in its metadata record
}

// Deliver adds a finished URL to the log of its application.
func (a *Set) Deliver(v *visit.Attempt, f *state.Finish, now time.Time) {
	if f.Link.Ext == "" || a.Pages == nil || a.Run.Failed() {
		return
	}
	app := f.Link.App()
	if app == "" {
		return
	}
	log := a.Pages.Log(app)
	if log == nil {
		return
	}
	d := Delivery{URL: v.Asked.URL.String(), Status: f.Code, Error: f.Kind, Via: v.Asked.Via, Hops: v.Asked.Hops,
		MIME: f.Mime, Size: v.Response.Content, Note: strings.Join(v.Notes, ","),
		Robots: v.Page.Shown.Directives.String()}
	at := now
	switch {
	case v.App().Shared:
		at = v.App().ArchivedAt
	case !v.Response.Began.IsZero():
		at = v.Response.Began
	}
	d.Time = at.UTC().Format(time.RFC3339Nano)
	if (v.Record.Archived || v.App().Shared) && v.Record.Written.File != "" {
		d.File, d.Offset = v.Record.Written.File, v.Record.Written.Offset
		d.Digest = "sha1:" + base32.StdEncoding.EncodeToString(v.Record.Written.PayloadDigest[:])
	}
	line, err := json.Marshal(d)
	if err == nil {
		err = log.Append(func(b []byte) []byte { return append(b, line...) })
	}
	if err != nil {
		a.Run.Fail(fmt.Errorf("pages of application %q: %w", app, err))
	}
}

// PageTails are hashes of the URLs in the logs of applications, by name. After a power failure, a finish whose line is
// lost does not count.
type PageTails map[string]map[uint64]struct{}

// Tails reads the logs as the last process left them.
func (a *Set) Tails() (PageTails, error) {
	tails := PageTails{}
	for _, app := range a.Pages.Names() {
		urls := map[uint64]struct{}{}
		err := a.Pages.Log(app).Each(func(line []byte) error {
			var d struct{ URL string }
			if err := json.Unmarshal(line, &d); err != nil {
				return err
			}
			urls[xxhash.Sum64String(d.URL)] = struct{}{}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("pages of application %q: %w", app, err)
		}
		tails[app] = urls
	}
	return tails, nil
}

// Has implements ledger.Witness. Each application has a log of its own, so a line says nothing of the finishes of
// others: all before must have theirs.
func (p PageTails) Has(f *state.Finish, all, synced bool) bool {
	urls, ok := p[f.Link.App()]
	switch {
	case synced:
		return true
	case !all:
		return false
	case !ok || f.IsRobots():
		return true
	}
	_, ok = urls[xxhash.Sum64String(f.Link.URL.String())]
	return ok
}

// Deliveries returns up to max durable pages of an application, from a position on; 0 means the first one that is not
// acknowledged. No page before that one is returned again. The error is ErrUnknown if the pages of no such
// application are collected. Safe for concurrent use.
func (a *Set) Deliveries(app string, from int64, max int) ([]Delivery, error) {
	log := a.Pages.Log(app)
	if log == nil {
		return nil, fmt.Errorf("application %q: %w", app, ErrUnknown)
	}
	lines, err := log.Read(from, max)
	if err != nil {
		return nil, fmt.Errorf("pages of application %q: %w", app, err)
	}
	pages := make([]Delivery, len(lines))
	for i, l := range lines {
		if err := json.Unmarshal(l.Text, &pages[i]); err != nil {
			return nil, fmt.Errorf("pages of application %q before position %d: %w", app, l.Next, err)
		}
		pages[i].Position = l.Next
	}
	return pages, nil
}

// Acknowledge records that all pages before position have been collected. It is durable when it returns. A position
// before an earlier one changes nothing. ctx bounds the wait for the dispatcher, which lets the application's links go
// on if they were held. After an error of ctx the pages are marked, and another call lets the links go on. Safe for
// concurrent use.
func (a *Set) Acknowledge(ctx context.Context, app string, position int64) error {
	log := a.Pages.Log(app)
	if log == nil {
		return fmt.Errorf("application %q: %w", app, ErrUnknown)
	}
	if err := log.Acknowledge(position); err != nil {
		return fmt.Errorf("pages of application %q: %w", app, err)
	}
	if held := a.heldNow.Load(); held != nil && (*held)[app] && log.Waiting() < a.MostUncollected {
		return a.Run.Heed(ctx, "acknowledge pages", func(time.Time) {}) // its links need not wait any longer
	}
	return nil
}

// Changed returns a channel that is closed when more pages may be there, or when the application is removed.
// It never is if there is no such application. Get it before Deliveries. Safe for concurrent use.
func (a *Set) Changed(app string) <-chan struct{} {
	if log := a.Pages.Log(app); log != nil {
		return log.Changed()
	}
	return nil
}

// recollectMost bounds the pages of one application that Recollect returns at a time.
const recollectMost = 1000

// Recollect returns links that fetch pages again which applications have not collected from this agent: at most some
// thousands. When another agent has accepted them, call done: it marks the pages as collected. The links on these pages
// were followed, and are not followed again. spent counts the pages that are given up, because they were fetched again
// too often: done marks them, too. Safe for concurrent use.
func (a *Set) Recollect() (links []link.Link, spent int, done func(context.Context) error, err error) {
	upTo := map[string]int64{}
	t := a.table.Load()
	if t == nil {
		return nil, 0, func(context.Context) error { return nil }, nil
	}
	for name, app := range *t {
		if !app.Pages {
			continue
		}
		pages, err := a.Deliveries(name, 0, recollectMost)
		if err != nil {
			return nil, 0, nil, err
		}
		for _, d := range pages {
			upTo[name] = d.Position
			u, err := weburl.Parse(d.URL)
			if err != nil {
				return nil, 0, nil, fmt.Errorf("pages of application %q: %w", name, err)
			}
			n := d.refetches() + 1
			if n == 0 { // the link would be that of the first visit, which is known everywhere
				spent++
				continue
			}
			again := link.Link{URL: u, Via: d.Via, Hops: d.Hops, Seed: u.Host()}
			again.SetApp(name, app.Scope.Root(u))
			if !app.Scope.Judge(again).In { // it was when the application got the page
				again.Hops = ""
			}
			again.SetRefetches(n)
			links = append(links, again)
		}
	}
	return links, spent, func(ctx context.Context) (err error) {
		for name, position := range upTo {
			if e := a.Acknowledge(ctx, name, position); !errors.Is(e, ErrUnknown) { // it was removed meanwhile
				err = errors.Join(err, e)
			}
		}
		return err
	}, nil
}

// refetches returns the Refetches of the page's link.
func (d *Delivery) refetches() uint8 {
	for note := range strings.SplitSeq(d.Note, ",") {
		if n, is := strings.CutPrefix(note, report.RefetchNote); is {
			if n, err := strconv.ParseUint(n, 10, 8); err == nil {
				return uint8(n)
			}
		}
	}
	return 0
}

// A State tells how far an application is at this agent.
type State struct {
	Name           string `json:"name"`
	Queued         int64  `json:"queued"`         // links that wait
	Fetched        int64  `json:"fetched"`        // finished URLs
	Shared         int64  `json:"shared"`         // of these, the URLs whose page came from the archive
	Unacknowledged int64  `json:"unacknowledged"` // pages that were not collected
	Held           bool   `json:"held"`           // its links wait until pages are collected

	Before Earlier `json:"-"`
}

// Earlier are the counts Fetched and Shared of earlier runs.
type Earlier struct{ Fetched, Shared int64 }

// States returns the states of the applications, by name. Safe for concurrent use.
func (a *Set) States() []State {
	t := a.table.Load()
	if t == nil {
		return nil
	}
	var states []State
	held := a.heldNow.Load()
	for _, name := range slices.Sorted(maps.Keys(*t)) {
		n := a.of(name)
		s := State{Name: name, Queued: n.queued, Fetched: n.fetched + n.shared, Shared: n.shared,
			Before: n.before}
		if log := a.Pages.Log(name); log != nil {
			s.Unacknowledged = int64(log.Waiting())
		}
		s.Held = held != nil && (*held)[name]
		states = append(states, s)
	}
	return states
}

// Uncollected returns the number of pages of all applications that this agent keeps to be collected. Safe for
// concurrent use.
func (a *Set) Uncollected() (n int64) {
	for _, s := range a.States() {
		n += s.Unacknowledged
	}
	return n
}
