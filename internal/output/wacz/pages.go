package wacz

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	maxTitled   = 256 << 10 // bytes of a page in which its title is looked for
	firstTitled = 8 << 10   // bytes in which it is looked for first: most pages have it there
)

// A page is a line of pages.jsonl.
type page struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Time   string `json:"ts"` // RFC 3339
	Title  string `json:"title,omitempty"`
	MIME   string `json:"mime"`
	Status int    `json:"status"`
	Depth  *int   `json:"depth,omitempty"`
	Seed   bool   `json:"seed,omitempty"`
}

// pages sorts the pages of WARC files by their times.
type pages struct {
	seeds, extra *extsort.Queue
	parsed       parse.Page
	body         []byte
	// last is a page whose metadata record may follow; nil: none. html reports whether a reader sees it as a page even
	// if it is no seed.
	last *page
	html bool
}

func newPages(sorts extsort.Config) *pages {
	return &pages{seeds: sorts.Queue("seeds"), extra: sorts.Queue("extra")}
}

func (p *pages) close() error { return errors.Join(p.seeds.Close(), p.extra.Close()) }

// A look makes the pages of one WARC file while its index is made. It is a warc.Looker.
type look struct {
	*pages
	ctx    context.Context
	open   bool      // the record that was looked at has not been read to its end
	latest time.Time // of the records
}

// Look implements warc.Looker.
func (l *look) Look(rec *warc.Record) error {
	l.damage()
	l.open = true
	return errors.Join(l.ctx.Err(), l.record(l.ctx, rec))
}

// Passed implements warc.Looker.
func (l *look) Passed(rec *warc.Record) {
	l.open = false
	if t, err := time.Parse(time.RFC3339, strings.TrimSpace(rec.Date())); err == nil {
		l.latest = later(l.latest, t)
	}
}

// damage drops the page of a record that was not read to its end.
func (l *look) damage() {
	if l.open {
		l.last = nil
	}
}

// end adds the page of the last record.
func (l *look) end() error {
	l.damage()
	return l.flush(way{})
}

// record looks at a record. Errors of the record itself are the page's: it has no title.
func (p *pages) record(ctx context.Context, rec *warc.Record) error {
	switch kind := rec.Type(); kind {
	case "metadata":
		if p.last == nil || rec.URL() != p.last.URL || rec.Header.Value("Content-Type") != "application/warc-fields" {
			return nil
		}
		w, ok := wayOf(rec)
		if !ok {
			return nil
		}
		return p.flush(w)
	case "response", "revisit":
		if err := p.flush(way{}); err != nil {
			return err
		}
		p.response(ctx, rec)
	}
	return nil
}

// response makes a page of a response with a status of 2xx.
func (p *pages) response(ctx context.Context, rec *warc.Record) {
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(rec.Date()))
	u, bad := weburl.Parse(rec.URL())
	if err != nil || bad != nil {
		return
	}
	head, body, _, err := rec.Message(ctx)
	if d, ok := body.(*message.Decoder); ok {
		defer d.Free() // a part of the body is enough
	}
	h := message.ReadHead(head)
	if len(head) == 0 || h.Status/100 != 2 || err != nil && body != nil {
		return
	}
	t, sure := h.Header.Type()
	p.body = p.body[:0]
	if err == nil && (t.IsHTML() || !sure) && rec.Type() == "response" {
		p.body = readSome(p.body, body, firstTitled)
	}
	if !sure {
		t = h.Header.TypeOf(p.body[:min(len(p.body), message.TypeBytes)])
	}
	p.html = t.IsHTML()
	p.last = &page{URL: rec.URL(), Time: stamp(at), MIME: t.Essence, Status: h.Status}
	sum := sha256.Sum256([]byte(p.last.Time + " " + p.last.URL))
	p.last.ID = hex.EncodeToString(sum[:12])
	if p.html && len(p.body) > 0 {
		in := parse.Input{URL: u, Header: h.Header, Body: p.body}
		parse.Parse(in, parse.Options{MaxLinks: 1}, &p.parsed)
		if len(in.Body) == firstTitled && !settled(in.Body, &p.parsed) {
			p.body = readSome(p.body, body, maxTitled-firstTitled)
			in.Body = p.body
			parse.Parse(in, parse.Options{MaxLinks: 1}, &p.parsed)
		}
		p.last.Title = p.parsed.Title
	}
}

// readSome adds the next n bytes of a body to b. It ends early where the body cannot be decoded.
func readSome(b []byte, body io.Reader, n int64) []byte {
	w := bytes.NewBuffer(b)
	_, _ = io.Copy(w, io.LimitReader(body, n)) // what was decoded before an error counts
	return w.Bytes()
}

// settled reports whether the rest of a page cannot change the title that its beginning has: the title is whole, and
// if the page can still declare its encoding, it is ASCII.
func settled(begin []byte, page *parse.Page) bool {
	ascii := !strings.ContainsFunc(page.Title, func(r rune) bool { return r < ' ' || r > '~' })
	if page.Title == "" || page.Kind != parse.HTML || page.Charset == "windows-1252" && !ascii {
		return false
	}
	open := true
	for i := bytes.IndexByte(begin, '<'); i >= 0; {
		begin = begin[i+1:]
		if tag := begin[:min(len(begin), len("/title>"))]; hasPrefixFold(tag, "title") {
			open = true
		} else if len(tag) == len("/title>") && hasPrefixFold(tag, "/title") {
			open = open && !strings.ContainsRune("\t\n\f\r />", rune(tag[len(tag)-1]))
		}
		i = bytes.IndexByte(begin, '<')
	}
	return !open
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// A way is how a page was found.
type way struct {
	known, seed bool
	hops        string // the discovery path, such as "LLE"
}

// wayOf reads a metadata record.
func wayOf(rec *warc.Record) (w way, ok bool) {
	err := rec.EachField(func(name, value string) {
		switch name {
		case "seed":
			w.seed, w.known = true, true
		case warc.FieldHops:
			w.hops, w.known = value, true
		}
	})
	return w, w.known && err == nil
}

// flush adds the last page, if there is one. A seed is a page of any type that was given to the crawl, or to which such
// a URL redirected. Without a word about its way, an HTML page counts as one, but has no depth.
func (p *pages) flush(w way) error {
	last := p.last
	if p.last = nil; last == nil {
		return nil
	}
	q := p.extra
	switch hops := strings.ReplaceAll(w.hops, "R", ""); {
	case w.known && hops == "":
		last.Depth, last.Seed, q = new(int), true, p.seeds
	case !p.html || strings.HasSuffix(hops, "E") || strings.HasSuffix(hops, "P"):
		return nil // a file of a page, or one that the crawler needed
	case !w.known:
		q = p.seeds
	default:
		n := len(hops)
		last.Depth = &n
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(last); err != nil {
		return err
	}
	return q.Push(fmt.Appendf(nil, "%s %s\x00%s", last.Time, last.URL, bytes.TrimSuffix(b.Bytes(), []byte{'\n'})))
}

// A mainPage is the page that a viewer shows first.
type mainPage struct{ URL, Time, Title string }

// listPages adds the lists of pages.
func (p *part) listPages() (main mainPage, err error) {
	for _, list := range []struct {
		name, id, title string
		pages           *extsort.Queue
		n               *int64
	}{
		{"pages/pages.jsonl", "pages", "All Pages", p.pages.seeds, &p.result.Seeds},
		{"pages/extraPages.jsonl", "extra", "Extra Pages", p.pages.extra, &p.result.Extra},
	} {
		if list.pages.Len() == 0 && list.id == "extra" {
			continue
		}
		err := p.add(list.name, zip.Deflate, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "{\"format\":\"json-pages-1.0\",\"id\":%q,\"title\":%q}\n", list.id, list.title)
			if err != nil {
				return err
			}
			return list.pages.Each(func(rec []byte) error {
				_, line, _ := bytes.Cut(rec, []byte{0})
				if main.URL == "" || bytes.Contains(line, []byte(`"title":`)) {
					var page page
					if err := json.Unmarshal(line, &page); err != nil {
						return err
					}
					if page.Title != "" {
						p.result.Titled++
					}
					main = cmp.Or(main, mainPage{page.URL, page.Time, page.Title})
				}
				*list.n++
				_, err := w.Write(append(line, '\n'))
				return err
			})
		})
		if err != nil {
			return main, err
		}
	}
	return main, nil
}
