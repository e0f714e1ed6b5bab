package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An Imported is a page that another agent has fetched, and that this one has read and archived.
type Imported struct{ v *visit.Attempt }

// ErrImport reports records that are no page which an agent can have sent.
var ErrImport = errors.New("not a page")

// Import reads and archives a page that another agent has fetched: link is its URL, category is empty if pages have
// none, and records are the page's WARC records. The page counts when Settle has been called. Import needs no
// dispatcher. It blocks for as long as records do. The error is an ErrImport, of reading records, or a failure of this
// machine.
func (l *Loop) Import(ctx context.Context, from string, link link.Link, category string,
	records io.Reader) (*Imported, error) {
	c := l.c
	resp, err := receive(c.visits.Fetch, link.URL, records)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", link.URL, err)
	}
	defer resp.Release()
	v := new(visit.Attempt)
	v.Reset(frontier.Task{Link: link})
	v.Asked.SetImported()
	v.Page.InHost.On = c.visits.Scope.BoundsHostDepth()
	v.Take(resp, visit.Fetched)
	v.Notes = append(v.Notes, "imported:"+from)
	v.Sorted(category)
	if v.Record.Left, err = c.visits.Leaves(v, resp); err != nil {
		return nil, err
	}
	if err := c.visits.Use(ctx, ctx, v, resp); err != nil {
		v.EndClaim(false)
		return nil, err
	}
	return &Imported{v}, nil
}

// Settle counts an imported page and takes its links in. All records of it are in one batch. settled is false if Pages
// has refused the page: then the run stops, and the page must come again.
func (l *Loop) Settle(p *Imported, now time.Time) (settled bool) {
	c, v := l.c, p.v
	if c.pagesStop = c.pagesStop || v.Page.Stops; v.Outcome == visit.Abandoned {
		return false
	}
	f := c.logs.finishOf(v, false)
	c.Intake.take(&v.Links)
	for _, s := range v.Skipped {
		c.skips.add(s)
	}
	v.NoteRefetch()
	c.logs.write(v, f, now)
	c.logs.writeLinks(v, &f, now)
	c.record(v, &f)
	v.EndClaim(!c.run.Failed())
	c.append()
	return true
}

// Size returns the bytes of the page's response, with its header, as they crossed the wire.
func (p *Imported) Size() int64 { return p.v.Response.Size }

// Abandon gives up an imported page that will not be settled.
func (p *Imported) Abandon() { p.v.EndClaim(false) }

// maxRequest bounds a request of another agent in bytes. It is more than any agent sends.
const maxRequest = 256 << 10

// receive makes a response of WARC records: first the response, then the others in any order.
func receive(from visit.Fetcher, u weburl.URL, records io.Reader) (*fetch.Response, error) {
	f, ok := from.(visit.Replayer)
	if !ok {
		return nil, errors.New("this crawl cannot take pages of other agents")
	}
	bad := func(err error) error {
		if errors.Is(err, warc.ErrDamaged) || errors.Is(err, fetch.ErrNotResponse) {
			return fmt.Errorf("%w: %w", ErrImport, err)
		}
		return err
	}
	r := warc.NewReader(records)
	rec, err := r.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: no record", ErrImport)
		}
		return nil, bad(err)
	}
	if rec.Type() != "response" || rec.URL() != u.String() {
		return nil, fmt.Errorf("%w: a %.20q record of %.200q", ErrImport, rec.Type(), rec.URL())
	}
	over := rec.Transport()
	x := fetch.Received{URL: u, Size: rec.Size, Truncated: rec.Header.Value("WARC-Truncated"),
		Secure: fetch.Secure{Version: over.TLS, Cipher: over.Cipher}}
	if x.Began, err = time.Parse(time.RFC3339Nano, rec.Date()); err != nil {
		return nil, fmt.Errorf("%w: WARC-Date %.40q", ErrImport, rec.Date())
	}
	if ip := rec.Header.Value("WARC-IP-Address"); ip != "" {
		if x.Addr, err = netip.ParseAddr(ip); err != nil {
			return nil, fmt.Errorf("%w: WARC-IP-Address %.40q", ErrImport, ip)
		}
	}
	resp, err := f.Replay(x, rec)
	if err != nil {
		return nil, bad(err)
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return resp, nil
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(rec, maxRequest+1))
		}
		if err == nil && len(b) > maxRequest {
			err = fmt.Errorf("%w: a %.20q record of more than %d bytes", ErrImport, rec.Type(), maxRequest)
		}
		if err != nil {
			resp.Release()
			return nil, bad(err)
		}
		switch rec.Type() {
		case "request":
			resp.Request = b
		case "metadata":
			if ms, err := strconv.ParseInt(field(b, "fetchTimeMs"), 10, 64); err == nil && ms >= 0 {
				resp.Duration = time.Duration(min(ms, 1<<40)) * time.Millisecond
			}
		}
	}
}

// field returns the value of a field of an application/warc-fields block, or "".
func field(block []byte, name string) string {
	for line := range bytes.SplitSeq(block, []byte("\n")) {
		if k, v, ok := bytes.Cut(line, []byte(":")); ok && string(k) == name {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}
