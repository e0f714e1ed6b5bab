package warclinks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page is a record of a page, as far as its headers say.
type page struct {
	number  uint64 // of the record; 0: none
	url     weburl.URL
	time    time.Time
	status  int
	header  message.Header
	head    []byte // HTTP header; empty: none
	revisit bool
	ref     warc.Reference
	robots  bool // a robots.txt, unless a metadata record says otherwise
}

// headers fills p with the headers of a record. ok is false if the record is no page. body is the decoded body. An
// error is that of reading the record.
func (p *page) headers(ctx context.Context, n uint64, rec *warc.Record) (body io.Reader, ok bool, err error) {
	*p = page{number: n, head: p.head[:0]}
	kind := rec.Type()
	if kind != "response" && kind != "revisit" && kind != "resource" {
		return nil, false, nil
	}
	if p.url, err = weburl.Parse(rec.URL()); err != nil {
		return nil, false, nil // such as dns:a.example
	}
	p.time, p.ref, p.revisit = dateOf(rec.Date()), rec.Reference(), kind == "revisit"
	p.robots = p.url.RequestURI() == "/robots.txt"
	if kind == "resource" {
		// A file of the page's type. Bytes of an unknown type are what this crawler writes if a server does not speak
		// HTTP.
		p.status = 200
		p.header = message.Header{{Name: "Content-Type", Value: rec.Header.Value("Content-Type")}}
		if strings.HasPrefix(p.header[0].Value, "application/octet-stream") {
			p.status = 0
		}
		return rec, true, nil
	}
	head, body, _, err := rec.Message(ctx)
	if errors.Is(err, message.ErrLayers) {
		body, err = bytes.NewReader(nil), nil
	}
	if err != nil {
		return nil, false, err
	}
	p.head = append(p.head, head...)
	h := message.ReadHead(p.head)
	p.status, p.header = h.Status, h.Header
	if p.revisit && strings.HasSuffix(rec.Header.Value("WARC-Profile"), "/server-not-modified") {
		p.status = 304
	}
	return body, true, nil
}

// wants reports whether p is a revisit that needs the body of its original: one of a type that may have links, or one
// whose HTTP header is not kept.
func (r *reader) wants(p *page) bool {
	if !p.revisit || p.status != 0 && p.status/100 != 2 {
		return false
	}
	t, _ := p.header.Type()
	kind := t.Essence
	return kind == "" || strings.Contains(kind, "html") || strings.Contains(kind, "xml") ||
		r.Parse.Requisites && kind == "text/css" || strings.HasSuffix(p.url.Path(), ".gz") ||
		r.sitemaps != nil && r.sitemaps.Contains(p.number)
}

// dateOf parses a WARC-Date. The zero time means that it is invalid.
func dateOf(s string) time.Time {
	s = strings.TrimSpace(s)
	for _, layout := range [...]string{
		time.RFC3339, "20060102150405", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}

// maxMetadata is how many bytes of a metadata record are read. Those of a long list of outlinks follow.
const maxMetadata = 64 << 10

// first reads the files for the first time.
func (r *reader) first(ctx context.Context) error {
	var last, now page // last is the newest page; a metadata record may follow it
	flush := func() error {
		defer func() { last.number = 0 }()
		if last.number == 0 || last.robots {
			return nil
		}
		return r.note(&last)
	}
	var found way // of a metadata record
	about := false
	err := r.each(true, func(n uint64, rec *warc.Record) error {
		r.res.Records++
		now.number, about = 0, false
		if rec.Type() == "metadata" {
			if last.number == 0 || rec.Header.Value("Content-Type") != "application/warc-fields" {
				return nil
			}
			if u, err := weburl.Parse(rec.URL()); err == nil && u == last.url {
				found, about = wayOf(rec)
			}
			return nil
		}
		if _, ok, err := now.headers(ctx, n, rec); err != nil || !ok {
			now.number = 0 // if the record is damaged, Finish says so
		}
		return nil
	}, func() error {
		switch {
		case about:
			last.robots = strings.HasSuffix(found.hops, "P")
			if strings.HasSuffix(found.hops, "M") {
				r.sitemaps.Add(last.number)
			}
		case now.number != 0:
			if err := flush(); err != nil {
				return err
			}
			last, now = now, last
		}
		return nil
	})
	return errors.Join(err, flush())
}

// A record of payloads is 16 bytes hash of what identifies the payload, 1 byte role, 8 bytes number of the record. For
// a revisit its URL, a zero and its HTTP header follow.
const (
	roleOriginal = 0
	roleRevisit  = 1
)

// note adds a page to the sorts.
func (r *reader) note(p *page) error {
	if err := r.visits.Add(p.url.String(), p.time, p.number, p.status == 304); err != nil {
		return err
	}
	role, place, date := byte(roleOriginal), p.url.String(), p.ref.Revisited
	switch {
	case r.wants(p):
		role, date = roleRevisit, p.ref.Date
		if u, err := weburl.Parse(p.ref.URL); err == nil {
			place = u.String()
		}
	case p.revisit || p.status/100 != 2:
		return nil
	}
	push := func(key string) error {
		h := sha256.Sum256([]byte(key))
		r.rec = append(append(r.rec[:0], h[:16]...), role)
		r.rec = binary.BigEndian.AppendUint64(r.rec, p.number)
		if role == roleRevisit {
			r.rec = append(append(r.rec, p.url.String()...), 0)
			r.rec = append(r.rec, p.head...)
		}
		return r.payloads.Push(r.rec)
	}
	if p.ref.Digest != "" {
		if err := push("digest " + strings.ToUpper(p.ref.Digest)); err != nil {
			return err
		}
	}
	if date == "" {
		return nil
	}
	return push("record " + place + " " + date)
}

// originals finds the originals of the revisits that have the links of their page.
func (r *reader) originals() error {
	wanted, copied := roaring64.New(), roaring64.New()
	var key [16]byte
	original := uint64(0) // the first record with key; 0: none
	err := r.payloads.Each(func(rec []byte) error {
		if len(rec) < 25 {
			return extsort.ErrDamaged
		}
		if [16]byte(rec) != key {
			key, original = [16]byte(rec), 0
		}
		n := binary.BigEndian.Uint64(rec[17:])
		if rec[16] == roleOriginal {
			original = cmp.Or(original, n)
			return nil
		}
		if !r.links.Contains(n) {
			return nil
		}
		wanted.Add(n)
		if original == 0 || !copied.CheckedAdd(n) {
			return nil
		}
		r.rec = binary.BigEndian.AppendUint64(r.rec[:0], original)
		return r.copies.Push(append(r.rec, rec[17:]...))
	})
	r.res.NoOriginal = int64(wanted.GetCardinality() - copied.GetCardinality())
	r.copied = copied
	return err
}
