package visit

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// keeps returns a Config that keeps some responses.
func keeps(t *testing.T, values ...string) func(*Config, *Parts) {
	k := must.Get(sheet.ParseKeep("keep", values))(t)
	return func(c *Config, _ *Parts) { c.Keep = k }
}

// The archive gets the responses that Keep and noarchive leave to it. The links of all are followed.
func TestKeep(t *testing.T) {
	obey := func(c *Config, _ *Parts) { c.ObeyNoArchive = true }
	const at = "http://a.example/p"
	for _, c := range []struct {
		name, answer string
		with         func(*Config, *Parts)
		want         string
		archived     string
	}{
		{"all", "/1", nil, "fetched 200 +LL:a.example/1", "response"},
		{"type", "/1", keeps(t, "text/html"), "fetched 200 +LL:a.example/1", "response"},
		{"another type", "/1", keeps(t, "image/*"), "fetched 200 +LL:a.example/1 (not-kept)", ""},
		{"URL", "/1", keeps(t, "image/*", "/p$"), "fetched 200 +LL:a.example/1", "response"},
		{"target of a redirect", "301 to=/x.pdf", keeps(t, `\.pdf$`), "fetched 301 +LR:a.example/x.pdf", "response"},
		{"another target", "301 to=/x.doc", keeps(t, `\.pdf$`), "fetched 301 +LR:a.example/x.doc (not-kept)", ""},
		{"noarchive is not obeyed", "meta=noarchive /1", nil, "fetched 200 +LL:a.example/1", "response"},
		{"noarchive of the page", "meta=noarchive /1", obey, "fetched 200 +LL:a.example/1 (noarchive,not-kept)", ""},
		{"noarchive of the header", "x-robots-tag=noarchive 404 /1", obey, "fetched 404 (noarchive,not-kept)", ""},
		{"noarchive of an error page", "404 meta=noarchive /1", obey, "fetched 404 (noarchive,not-kept)", ""},
		{"noindex", "meta=noindex /1", obey, "fetched 200 +LL:a.example/1", "response"},
		{"no answer", "reset", keeps(t, "image/*"), "failed", ""},
	} {
		on(t, c.name, at+" "+c.answer, c.with, func(b *bench) {
			v := b.visited(to(at), func(v *Attempt) { v.Last = true })
			if got := b.archived(at); told(v) != c.want || got != c.archived || v.Record.Archived != (got != "") {
				b.Errorf("%s, archived %q; want %s, %q", told(v), got, c.want, c.archived)
			}
		})
	}
}

// Of the same content at another URL, and of a confirmed one, the archive gets a record that refers to the first. A
// page that was visited before tells whether it has changed.
func TestRevisits(t *testing.T) {
	const web = "http://a.example/1 same etag=x\nhttp://a.example/2 same\n" +
		"http://a.example/3 etag=x /1 | etag=y /1 | etag=z /2"
	on(t, "", web, func(_ *Config, p *Parts) { p.Strategy = planner{strategy{new([]string), nil}} }, func(b *bench) {
		first := b.visited(to("http://a.example/1"))
		if v := b.visited(to("http://a.example/2")); told(v) != "fetched 200 (duplicate:digest)" ||
			!v.Record.Written.Revisit ||
			v.Record.Written.Original != first.Record.Written.Original {
			b.Errorf("another URL: %s, %+v", told(v), v.Record.Written)
		}
		before := func(v *Attempt) *Before {
			return &Before{If: v.Plan().Validators, Print: v.Plan().Print, Original: v.Record.Written.Original}
		}
		again := func(of *Before) func(*Attempt) { return func(v *Attempt) { v.Plan().Before = of } }
		v := b.visited(to("http://a.example/1"), again(before(first)))
		if told(v) != "fetched 304 (warcRevisit:notModified)" || !v.Unchanged() || !v.Confirmed() {
			b.Errorf("confirmed: %s, unchanged %v", told(v), v.Unchanged())
		}
		unknown := before(first)
		unknown.Original = warc.Original{}
		if v := b.visited(to("http://a.example/1"), again(unknown)); told(v) != "fetched 304" {
			b.Errorf("confirmed, and the archive has no original: %s", told(v))
		}
		page := b.visited(to("http://a.example/3"))
		for _, want := range []bool{true, false} { // the tag changes, then the content
			v := b.visited(to("http://a.example/3"), again(before(page)))
			if v.Unchanged() != want || !v.Compared() || v.Confirmed() {
				b.Errorf("%s: unchanged %v, want %v", told(v), v.Unchanged(), want)
			}
			page = v
		}
		if got := b.archived("http://a.example/1") + ", " +
			b.archived("http://a.example/2"); got != "response revisit response, revisit" {
			b.Errorf("archived %s", got)
		}
	})
}

// firsts says that a page with the same content came first elsewhere.
type firsts struct {
	duplicate bool
	err       error
	asked     *int
}

func (f firsts) First(context.Context, *warc.Exchange, int64) (first warc.Original, duplicate, asked bool, err error) {
	*f.asked++
	return warc.Original{URL: "http://b.example/first", Date: time.Unix(1e9, 0)}, f.duplicate, true, f.err
}

// The links of a duplicate of another agent's page are not followed, and its record refers to that page. A page of a
// lost archive, an error page and an application's page have no first.
func TestContents(t *testing.T) {
	refetch, _ := RefetchLink(to("http://a.example/p"))
	news := appLink("news", "http://a.example/p")
	for _, c := range []struct {
		name, answer string
		link         link.Link
		firsts       firsts
		asked        int
		want         string
		archived     string
	}{
		{"first", "/1", to("http://a.example/p"), firsts{}, 1, "fetched 200 +LL:a.example/1", "response"},
		{"duplicate", "/1", to("http://a.example/p"), firsts{duplicate: true}, 1, "fetched 200 (duplicate:content)",
			"revisit"},
		{"error page", "404", to("http://a.example/p"), firsts{duplicate: true}, 0, "fetched 404", "response"},
		{"lost archive", "/1", refetch, firsts{duplicate: true}, 1, "fetched 200", "response"},
		{"application", "/1", news, firsts{duplicate: true}, 0, "fetched 200", "response"},
	} {
		on(t, c.name, "http://a.example/p "+c.answer, func(_ *Config, p *Parts) {
			c.firsts.asked, p.LinkLog = new(int), new(linklog.Writer)
			p.Contents, p.Applications = c.firsts, apps{"news": {Name: "news", Scope: p.Scope}}
		}, func(b *bench) {
			v := b.visited(c.link)
			if got := b.archived("http://a.example/p"); told(v) != c.want || got != c.archived ||
				*c.firsts.asked != c.asked {
				b.Errorf("%s, archived %q, asked %d times; want %s, %q, %d", told(v), got, *c.firsts.asked, c.want,
					c.archived, c.asked)
			}
			if got := logged(b.T, v); (len(got) == 1) != (v.Response.Status == 200) {
				b.Errorf("the link log has links to %v", got)
			}
			if c.archived != "revisit" {
				return
			}
			got := testparts.Captures(b, disk.FS(b.mem), "http://a.example/p")[0].Header
			if to := got.Value("WARC-Refers-To-Target-URI"); to != "http://b.example/first" {
				b.Errorf("the record refers to %q", to)
			}
		})
	}
	broken := errors.New("the disk of the contents")
	on(t, "broken", "http://a.example/p /1", func(_ *Config, p *Parts) {
		p.Contents = firsts{err: broken, asked: new(int)}
	}, func(b *bench) {
		b.begin("http://a.example/p")
		if v := <-b.Results(); !errors.Is(v.Err, broken) || v.Record.Archived {
			b.Errorf("%v, archived %v", v.Err, v.Record.Archived)
		}
	})
}

// similar says that each page is nearly the same as another one.
type similar struct{ err error }

func (s similar) Find(context.Context, near.Sketch, index.Original) (*index.Original, *index.Claim, error) {
	return &index.Original{URL: "http://b.example/a,b", Date: time.Unix(1e9, 0)}, nil, s.err
}

func (similar) Syncing() func() { return func() {} }

// logged returns the targets of the links of the visit's page in the link log.
func logged(t *testing.T, v *Attempt) (targets []string) {
	t.Helper()
	mem := testdisk.NewMem()
	w := must.Get(linklog.Open(linklog.Config{Dir: "/crawl", FS: mem}))(t)
	w.Write(&linklog.Line{URL: "http://a.example/p", Time: time.Unix(1e9, 0), Status: 200, Links: &v.LinkLog().Out})
	must.Do(t, w.Close())
	must.Get(linklog.Read(mem, []string{"/crawl"}, func(p *linklog.PageLine) error {
		for _, l := range p.Links {
			targets = append(targets, l.Target)
		}
		return nil
	}))(t)
	return targets
}

// A near-duplicate is marked. With DropNear, the archive has a note in its place, and its links are not followed.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		name     string
		drop     bool
		err      error
		want     string
		archived string
	}{
		{"marked", false, nil, "fetched 200 +LL:a.example/1 (near-duplicate:http://b.example/a%2Cb)", "response"},
		{"dropped", true, nil, "fetched 200 (near-duplicate:http://b.example/a%2Cb)", ""},
		{"closed", true, index.ErrClosed, "fetched 200 +LL:a.example/1", "response"},
	} {
		on(t, c.name, "http://a.example/p /1 prose=200", func(cfg *Config, p *Parts) {
			cfg.DropNear, p.Near, p.LinkLog = c.drop, similar{c.err}, new(linklog.Writer)
		}, func(b *bench) {
			v := b.visited(to("http://a.example/p"))
			if got := logged(b.T, v); len(got) != 1 {
				b.Errorf("the link log has links to %v", got)
			}
			if got := b.archived("http://a.example/p"); told(v) != c.want || got != c.archived || !v.Record.Archived {
				b.Errorf("%s, archived %q; want %s, %q", told(v), got, c.want, c.archived)
			}
		})
	}
}

// exporter is a Boundary that gives pages away.
type exporter struct {
	keeper
	away     bool
	category string
	err      error
	texts    *[]string
}

func (e exporter) Export(_ context.Context, l link.Link, _ *warc.Exchange, text func([]byte) ([]byte, []byte, error)) (
	page link.Link, category string, away bool, err error) {
	read, _, err := text(nil)
	*e.texts = append(*e.texts, strings.TrimSpace(string(read)))
	page = l
	page.SetDestination(link.Destination{Category: 7, Hash: 1})
	if e.away {
		page.SetStored(link.Stored{File: "pages-1", To: 10})
	}
	return page, e.category, e.away, errors.Join(err, e.err)
}

// A page that belongs to another agent is stored for it, and neither archived nor followed here. If links alone travel,
// the page is archived here, and its links get the category.
func TestBoundary(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		with         exporter
		link         link.Link
		asked        int
		want         string
		archived     string
	}{
		{"away", "/1", exporter{away: true, category: "sport"}, to("http://a.example/p"), 1,
			"fetched 200 (category:sport,exported)", ""},
		{"links alone", "/1", exporter{category: "sport"}, to("http://a.example/p"), 1,
			"fetched 200 +LL:a.example/1* (category:sport)", "response"},
		{"error page", "404", exporter{away: true}, to("http://a.example/p"), 0, "fetched 404", "response"},
		{"application", "/1", exporter{away: true}, appLink("news", "http://a.example/p"), 0, "fetched 200",
			"response"},
	} {
		on(t, c.name, "http://a.example/p "+c.answer, func(_ *Config, p *Parts) {
			c.with.texts = new([]string)
			p.Boundary, p.Applications = c.with, apps{"news": {Name: "news", Scope: p.Scope}}
		}, func(b *bench) {
			v := b.visited(c.link)
			if got := b.archived("http://a.example/p"); told(v) != c.want || got != c.archived {
				b.Errorf("%s, archived %q; want %s, %q", told(v), got, c.want, c.archived)
			}
			if texts := *c.with.texts; len(texts) != c.asked || c.asked > 0 && texts[0] != "x" {
				b.Errorf("texts %q", texts)
			}
			if sent := !v.Boundary().Sent.URL.IsZero(); sent != (c.name == "away") {
				b.Errorf("sent %v", v.Boundary().Sent)
			}
		})
	}
}

// An unchanged page whose earlier version another agent has stays where it is: here is a record that refers to it, and
// its links are not followed. A changed one goes where it belongs, with its version.
func TestBoundaryAgain(t *testing.T) {
	on(t, "", "http://a.example/p /1 | /1 | /2", func(_ *Config, p *Parts) {
		p.Strategy = planner{strategy{new([]string), nil}}
		p.Boundary = exporter{away: true, texts: new([]string)}
	}, func(b *bench) {
		v := b.visited(to("http://a.example/p"))
		version, ok := v.Boundary().Sent.Version()
		w := v.Record.Written
		if !ok || version == 0 || w.Original.URL != "http://a.example/p" || w.Original.ID != [16]byte{} ||
			w.File != "" {
			b.Fatalf("%s, version %d, %+v", told(v), version, w)
		}
		again := func(v *Attempt) {
			v.Plan().Before = &Before{Print: 1, Original: w.Original, Digest: w.BodyDigest}
		}
		print := v.Plan().Print
		same := b.visited(to("http://a.example/p"), again, func(v *Attempt) { v.Plan().Before.Print = print })
		if told(same) != "fetched 200" || !same.Unchanged() || !same.Record.Archived {
			b.Errorf("the same: %s", told(same))
		}
		other := b.visited(to("http://a.example/p"), again, func(v *Attempt) { v.Plan().Before.Print = print })
		if v, _ := other.Boundary().Sent.Version(); v == version || v == 0 || other.Unchanged() {
			b.Errorf("another version: %s, version %d", told(other), v)
		}
	})
}

// captures is the archive of another agent.
type captures func() (io.ReadCloser, error)

func (c captures) Capture(context.Context, weburl.URL) (io.ReadCloser, string, error) {
	r, err := c()
	return r, "agent-b", err
}

// What the crawl has fetched, an application gets from the archive, and the other way round: no request, no record, and
// the links of its own. What cannot be read is fetched again.
func TestShared(t *testing.T) {
	with := func(_ *Config, p *Parts) {
		p.Applications = apps{"news": {Name: "news", Scope: p.Scope, Follow: true}}
	}
	on(t, "own", "http://a.example/p /1", with, func(b *bench) {
		first := b.visited(to("http://a.example/p"))
		v := b.visited(appLink("news", "http://a.example/p"))
		if told(v) != "fetched 200 +LL:a.example/1 (shared)" || !v.App().Shared || v.Record.Archived ||
			!v.Response.Began.IsZero() ||
			v.Record.Written.File != first.Record.Written.File ||
			v.Record.Written.BodyDigest != first.Record.Written.BodyDigest {
			b.Errorf("%s, %+v; first %+v", told(v), v.Record.Written, first.Record.Written)
		}
		if l := decoded(b.T, &v.Links)[0]; l.App() != "news" {
			b.Errorf("the link belongs to %q", l.App())
		}
		if got := b.archived("http://a.example/p"); got != "response" || strings.Count(b.requests(), "/p") != 1 {
			b.Errorf("archived %q, asked for %s", got, b.requests())
		}
		b.must(b.parts.Archive.Flush())
		b.fs.Break(func(c testdisk.Call) (f testdisk.Fault) {
			if c.Op == testdisk.OpRead && strings.Contains(c.Name, "archive/") {
				f.Err = errors.New("a bad sector")
			}
			return f
		})
		v = b.visited(appLink("news", "http://a.example/p"))
		if told(v) != "fetched 200 +LL:a.example/1 (archive-unreadable,duplicate:digest)" || v.App().Shared {
			b.Errorf("after damage: %s", told(v))
		}
	})
	refused := errors.New("no answer")
	for _, c := range []struct {
		name      string
		elsewhere bool
		records   string // of another agent: "page", damaged ones, or none
		err       error
		want      string
	}{
		{"it has always been here", false, "page", nil, "fetched 200 +LL:b.example/new"},
		{"another agent has it", true, "page", nil, "fetched 200 +LL:b.example/old (shared:agent-b)"},
		{"none has it", true, "", nil, "fetched 200 +LL:b.example/new"},
		{"none answers", true, "", refused, "fetched 200 +LL:b.example/new"},
		{"damaged", true, "x", nil, "fetched 200 +LL:b.example/new (archive-unreadable)"},
	} {
		on(t, c.name, "http://b.example/q /new", func(cfg *Config, p *Parts) {
			with(cfg, p)
			p.Sharing = captures(func() (io.ReadCloser, error) {
				if c.records == "" {
					return nil, c.err
				}
				return io.NopCloser(strings.NewReader(c.records)), nil
			})
		}, func(b *bench) {
			if c.records == "page" {
				c.records = b.elsewhere("http://b.example/q", "/old")
			}
			v := b.visited(appLink("news", "http://b.example/q"), func(v *Attempt) { v.App().Elsewhere = c.elsewhere })
			if shared := strings.Contains(c.want, "shared:"); told(v) != c.want || v.App().Shared != shared ||
				strings.Contains(b.requests(), "/q") == shared || v.Record.Archived == shared {
				b.Errorf("%s, asked for %s; want %s", told(v), b.requests(), c.want)
			}
			if l := decoded(b.T, &v.Links)[0]; l.App() != "news" {
				b.Errorf("the link belongs to %q", l.App())
			}
		})
	}
}

// elsewhere returns the records of a page that another agent has fetched.
func (b *bench) elsewhere(url, answer string) string {
	other := newBench(b.T, url+" "+answer, nil)
	defer other.end()
	other.visited(to(url))
	found, err := other.Archive.Find(url)
	b.must(err)
	r, err := other.Archive.OpenCapture(found)
	b.must(err)
	defer r.Close()
	all, err := io.ReadAll(r)
	b.must(err)
	return string(all)
}
