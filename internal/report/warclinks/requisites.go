package warclinks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// A pageFiles is a page in a WARC file, and the files that it needs. Its metadata record follows it in the file.
type pageFiles struct {
	id     string // WARC-Record-ID
	page   link.Link
	told   bool // its metadata record says how the crawl found it
	links  []parse.Link
	parsed parse.Page
	body   bytes.Buffer

	digest string // of the payload, in capitals; "": unknown
	head   []byte // of a revisit that needs the body of its original; nil: any other
	file   int    // of the record, in reader.files
	offset int64
}

// Requisites calls fn for the visits with status 2xx in WARC files of this crawler, in the order of the records, with
// revisits of pages at the end. The page has the path on which the crawl found it. links are what a browser loads to
// show it: images, styles, scripts. Those of a revisit record are in the record with the same payload; NoOriginal
// counts the pages for which no file has it. Both arguments are valid until fn returns. A robots.txt that the crawler
// needed for itself is no page. Requisites reads the files once, and originals of revisits once more. An error is one
// of the disk, or the first of Sort.Stop or fn.
func Requisites(ctx context.Context, files []string, c Config, fn func(page link.Link, links []parse.Link) error) (
	_ Result, err error) {
	c.Parse.Requisites = true
	r, err := newReader(files, c)
	if err != nil {
		return Result{}, err
	}
	r.payloads = c.Sort.Queue("payloads")
	defer func() { err = errors.Join(err, r.payloads.Close()) }()
	var held, now pageFiles
	var p page
	use, cut := false, false
	flush := func() error {
		defer func() { held.id = "" }()
		if held.id == "" || strings.HasSuffix(held.page.Hops, "P") {
			return nil
		}
		if err := r.keepPayload(&held); err != nil || held.head != nil && held.digest != "" {
			return err
		}
		return fn(held.page, held.links)
	}
	err = r.each(true, func(n uint64, rec *warc.Record) error {
		r.res.Records++
		use = false
		if held.id != "" && rec.Type() == "metadata" && !held.told &&
			strings.TrimSpace(rec.Header.Value("WARC-Concurrent-To")) == held.id {
			var w way
			if w, held.told = wayOf(rec); held.told {
				held.page.Via, held.page.Hops, held.page.Seed = w.via, w.hops, w.tag
			}
			return nil
		}
		in, ok, err := p.headers(ctx, n, rec)
		if err != nil || !ok || p.status/100 != 2 {
			return nil // if the record is damaged, Finish says so
		}
		use = true
		now.file, now.offset, now.digest, now.head = r.at, rec.Offset, strings.ToUpper(p.ref.Digest), nil
		now.body.Reset()
		if cut = false; !p.revisit {
			// Of a body that cannot be decoded, the decoded part counts.
			_, err = io.CopyN(&now.body, in, r.MaxDecoded+1)
			cut = err != io.EOF
		}
		now.id = strings.TrimSpace(rec.Header.Value("WARC-Record-ID"))
		return nil
	}, func() error {
		if !use {
			return nil
		}
		if err := flush(); err != nil {
			return err
		}
		if cut {
			r.res.Cut++
		}
		now.read(&p, r)
		held, now = now, held
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = r.revisits(ctx, fn)
	}
	return r.res, err
}

// keepPayload notes a page that may be the original of a revisit, or a revisit that needs one. A record of payloads is
// 16 bytes hash of the digest, 1 byte role, and then, of an original, 4 bytes file and 8 bytes offset; of a revisit, 4
// bytes length of its HTTP header, the header, and its page.
func (r *reader) keepPayload(h *pageFiles) error {
	if h.digest == "" || h.head == nil && h.parsed.Kind == parse.Other {
		return nil
	}
	sum := sha256.Sum256([]byte(h.digest))
	if r.rec = append(r.rec[:0], sum[:16]...); h.head == nil {
		r.rec = binary.BigEndian.AppendUint32(append(r.rec, roleOriginal), uint32(h.file))
		r.rec = binary.BigEndian.AppendUint64(r.rec, uint64(h.offset))
	} else {
		r.rec = binary.BigEndian.AppendUint32(append(r.rec, roleRevisit), uint32(len(h.head)))
		r.rec = h.page.AppendTo(append(r.rec, h.head...))
	}
	return r.payloads.Push(r.rec)
}

// revisits calls fn for the revisits that need the body of their original.
func (r *reader) revisits(ctx context.Context, fn func(page link.Link, links []parse.Link) error) error {
	var key [16]byte
	var original pageFiles // with the body of the payload with key
	var p page
	has := false
	return r.payloads.Each(func(rec []byte) error {
		if len(rec) < 21 {
			return extsort.ErrDamaged
		}
		if [16]byte(rec) != key {
			key, has = [16]byte(rec), false
		}
		n := int(binary.BigEndian.Uint32(rec[17:]))
		if rec[16] == roleOriginal {
			if len(rec) == 29 && n < len(r.files) && !has {
				var err error
				has, err = r.body(ctx, n, int64(binary.BigEndian.Uint64(rec[21:])), &p, &original)
				return err
			}
			return nil
		}
		if n > len(rec)-21 {
			return extsort.ErrDamaged
		}
		to, _, err := link.Decode(rec[21+n:])
		if err != nil {
			return extsort.ErrDamaged
		}
		if !has {
			r.res.NoOriginal++
			return fn(to, nil)
		}
		again := page{url: to.URL, status: p.status, header: p.header}
		if n > 0 {
			again.header = message.ReadHead(rec[21 : 21+n]).Header
		}
		original.read(&again, r)
		return fn(to, original.links)
	})
}

// body reads the body of a record. ok is false if it has changed since it was read first.
func (r *reader) body(ctx context.Context, file int, offset int64, p *page, to *pageFiles) (ok bool, err error) {
	f, err := r.open(r.files[file])
	if err != nil {
		return false, err
	}
	defer f.Close()
	rd := warc.NewReaderAt(io.NewSectionReader(f, offset, r.sizes[file]-offset), offset)
	rec, err := rd.Next()
	if err != nil {
		return false, nil
	}
	in, ok, err := p.headers(ctx, 1, rec)
	if err != nil || !ok {
		return false, nil
	}
	to.body.Reset()
	_, _ = io.CopyN(&to.body, in, r.MaxDecoded+1) // of a body that cannot be decoded, the decoded part counts
	return true, nil
}

// read sets the page and its files. Without a metadata record the page counts as one that another page links to.
func (h *pageFiles) read(p *page, r *reader) {
	h.page, h.told, h.links = link.Link{URL: p.url, Hops: "L"}, false, h.links[:0]
	if p.robots {
		h.page.Hops = "P"
	}
	if r.wants(p) {
		h.head = append([]byte{}, p.head...)
		return
	}
	body := h.body.Bytes()[:min(int64(h.body.Len()), r.MaxDecoded)]
	parse.Parse(parse.Input{URL: p.url, Header: p.header, Body: body}, r.Parse, &h.parsed)
	for _, l := range h.parsed.Links {
		if l.Hop == 'E' {
			h.links = append(h.links, l)
		}
	}
}

// A way is how the crawl found a page, as the fields of a metadata record say.
type way struct{ via, hops, tag string }

// wayOf reads a metadata record. ok is false if the record has no fields.
func wayOf(rec *warc.Record) (w way, ok bool) {
	b, err := io.ReadAll(io.LimitReader(rec, maxMetadata))
	if err != nil {
		return way{}, false
	}
	for line := range bytes.Lines(b) {
		name, value, is := bytes.Cut(line, []byte{':'})
		ok = ok || is
		switch text := string(bytes.TrimSpace(value)); string(name) {
		case "hopsFromSeed":
			w.hops = text
		case "via":
			w.via = text
		case "sourceTag":
			w.tag = text
		}
	}
	return w, ok
}
