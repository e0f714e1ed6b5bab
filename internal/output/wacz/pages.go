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

const maxTitled = 256 << 10 // bytes of a page in which its title is looked for

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

// A reading is what pages.read has seen.
type reading struct {
	whole  int64     // where the last record ends of which no part is missing
	latest time.Time // of the records
}

// read adds the pages of a WARC file. Damaged records are passed over.
func (p *pages) read(ctx context.Context, file io.Reader) (found reading, err error) {
	damaged := false
	r := warc.NewReader(file)
	r.Damaged = func(*warc.DamageError, int64) { damaged = true }
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return found, p.flush(way{})
		}
		if err != nil {
			return found, err
		}
		if err := errors.Join(ctx.Err(), p.record(ctx, rec)); err != nil {
			return found, err
		}
		switch err := r.Finish(); {
		case errors.Is(err, warc.ErrDamaged):
			p.last = nil // Next notes it
			continue
		case err != nil:
			return found, err
		}
		if !damaged {
			found.whole = rec.Offset + rec.Length
		}
		if t, err := time.Parse(time.RFC3339, strings.TrimSpace(rec.Date())); err == nil {
			found.latest = later(found.latest, t)
		}
	}
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
	h := message.ReadHead(head)
	if len(head) == 0 || h.Status/100 != 2 || err != nil && body != nil {
		return
	}
	t, sure := h.Header.Type()
	p.body = p.body[:0]
	if err == nil && (t.IsHTML() || !sure) && rec.Type() == "response" {
		p.body = readSome(p.body, body)
	}
	if !sure {
		t = h.Header.TypeOf(p.body[:min(len(p.body), message.TypeBytes)])
	}
	p.html = t.IsHTML()
	p.last = &page{URL: rec.URL(), Time: stamp(at), MIME: t.Essence, Status: h.Status}
	sum := sha256.Sum256([]byte(p.last.Time + " " + p.last.URL))
	p.last.ID = hex.EncodeToString(sum[:12])
	if p.html && len(p.body) > 0 {
		parse.Parse(parse.Input{URL: u, Header: h.Header, Body: p.body}, parse.Options{MaxLinks: 1}, &p.parsed)
		p.last.Title = p.parsed.Title
	}
}

// readSome reads the beginning of a body. It ends early where the body cannot be decoded.
func readSome(b []byte, body io.Reader) []byte {
	w := bytes.NewBuffer(b)
	_, _ = io.Copy(w, io.LimitReader(body, maxTitled)) // what was decoded before an error counts
	return w.Bytes()
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
