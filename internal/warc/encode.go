package warc

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

const (
	// piecewiseBytes is the size over which a response is read in pieces.
	piecewiseBytes = 2 << 20
	// largeBytes is the size over which a response is compressed directly into the file, while all other writes
	// wait. At most maxLarge smaller responses at a time are compressed piece by piece in memory.
	largeBytes = 16 << 20
	maxLarge   = 4
	// keepBytes is the capacity over which a group drops a buffer before it goes back to the pool.
	keepBytes = 4 << 20
	chunkSize = 128 << 10
	// pieceBytes is the size up to which a response that is read in pieces needs no token of group.large.
	pieceBytes = 256 << 10
)

// encode turns x into finished members in g.out. If the response is larger than g.largeBytes, encode only sets
// g.direct, because writePieces must write it when the file is known.
func (g *group) encode(x *Exchange, w *Writer) (revisit bool, err error) {
	g.out.b, g.first, g.cdx, g.remember, g.direct = g.out.b[:0], 0, g.cdx[:0], false, false
	g.earlier, g.coded = false, false
	g.digest, g.body, g.from = [20]byte{}, [20]byte{}, Original{}
	g.id = g.newID()
	g.dates(x.Began)
	g.choose(w.streams, x, false)
	if x.Response != nil && x.Response.Size() > 0 {
		if revisit, err = g.response(x, w); err != nil {
			return false, fmt.Errorf("response: %w", err)
		}
		g.first = len(g.out.b)
	}
	if len(x.Request) > 0 {
		g.start("request", g.newID(), x.URL)
		g.addr(x.Addr)
		g.transport(x.Over)
		g.idField("WARC-Concurrent-To", g.id)
		if err := g.small(typeRequest, x.Request); err != nil {
			return false, fmt.Errorf("request: %w", err)
		}
	}
	if len(x.Metadata) > 0 {
		g.fields = g.fields[:0]
		if g.coded {
			g.fields = append(appendDigest(append(g.fields, fieldBody+": "...), g.body[:]), "\r\n"...)
		}
		g.fields = appendFields(g.fields, x.Metadata)
		g.start("metadata", g.newID(), x.URL)
		g.idField("WARC-Concurrent-To", g.id)
		if err := g.small(typeFields, g.fields); err != nil {
			return false, fmt.Errorf("metadata: %w", err)
		}
	}
	return revisit, nil
}

// choose chooses the stream of the records of x. page means that there is a response record with status 200.
func (g *group) choose(streams []*stream, x *Exchange, page bool) {
	part := Diagnostics
	switch {
	case len(streams) == 1:
		part = 0
	case x.Robots:
		part = Robots
	case page:
		part = Pages
	}
	g.stream = streams[part]
	g.info = g.stream.info.Load()
}

// response encodes the response, revisit or resource record.
func (g *group) response(x *Exchange, w *Writer) (revisit bool, err error) {
	size := x.Response.Size()
	whole, inMemory := x.Response.Bytes()
	if inMemory {
		size = int64(len(whole))
	}
	isHTTP := x.HTTP && x.HeadLen > 0 && int64(x.HeadLen) <= size
	head, err := g.httpHead(x, isHTTP, whole, inMemory)
	if err != nil {
		return false, err
	}
	if err := g.hash(x.Response, head, whole, inMemory, size); err != nil {
		return false, err
	}
	facts := parseHead(head)
	g.body = g.digest
	if facts.Chunked && x.Truncated == "" {
		if err := g.hashBody(x.Response, head, whole, inMemory, size); err != nil {
			return false, err
		}
	}
	end, clear := headEnd(head)
	clear = isHTTP && clear && end == len(head)

	var from Original
	profile := ""
	switch {
	case isHTTP && x.NotModified != nil:
		from, profile = *x.NotModified, ProfileNotModified
	case clear && x.Truncated == "" && size > int64(len(head)):
		o, ok, err := g.original(x, w, size-int64(len(head)))
		if err != nil {
			return false, err
		}
		if g.remember = !ok; ok {
			from, profile = o, ProfileIdentical
			head = g.frame(head, o)
		}
	}
	kind, contentType := "response", typeResponse
	switch {
	case profile != "":
		kind = "revisit"
	case !isHTTP:
		kind, contentType = "resource", typeBytes
	}
	switch {
	case profile != "":
		g.from = from
	case isHTTP:
		g.from = Original{URL: x.URL, Date: x.Began.Truncate(time.Millisecond), ID: g.id}
		if g.body != g.digest {
			g.from.Stored = g.digest
		}
	}
	if kind == "response" && facts.Status == "200" {
		g.choose(w.streams, x, true)
	}
	g.start(kind, g.id, x.URL)
	g.addr(x.Addr)
	g.transport(x.Over)
	if x.Truncated != "" {
		g.field("WARC-Truncated", truncation(x.Truncated))
	}
	if kind == "response" && message.IsType(x.PayloadType) {
		g.field(fieldIdentified, x.PayloadType)
	}
	if clear && profile != ProfileNotModified {
		g.digestField("WARC-Payload-Digest", g.digest[:])
	}
	indexed := g.digest[:]
	switch {
	case profile == ProfileNotModified:
		indexed = nil
	case isHTTP && !clear:
		if indexed, err = unclearDigest(io.NewSectionReader(x.Response, 0, size)); err != nil {
			return false, err
		}
	}
	g.coded = kind == "response" && clear && g.body != g.digest && len(x.Metadata) > 0
	g.line(x, kind, facts, indexed)
	if profile != "" {
		g.refer(profile, from)
		return profile == ProfileIdentical, g.small(contentType, head)
	}
	if inMemory {
		g.block.Write(whole)
	}
	g.digestField("WARC-Block-Digest", g.block.Sum(g.sum[:0]))
	g.finish(contentType, size)
	g.store = isHTTP && facts.incompressible()
	if !inMemory || size > piecewiseBytes {
		g.piecesHead = append(g.piecesHead[:0], g.head...)
		if size > g.largeBytes {
			g.direct = true
			return false, nil
		}
		if size > pieceBytes && !g.token {
			g.large <- struct{}{}
			g.token = true
		}
		if g.store {
			g.out.b = slices.Grow(g.out.b, int(size)+4<<10)
		}
		return false, g.writePieces(x, &g.out)
	}
	return false, g.record(whole[:len(head)], whole[len(head):], g.store)
}

// original returns the record that holds the payload of x, of size bytes, if there is one.
func (g *group) original(x *Exchange, w *Writer, size int64) (o Original, ok bool, err error) {
	if x.Same != nil {
		return *x.Same, true, nil
	}
	if o, ok = w.table.find(&g.body); ok && (!x.Own || o.URL == x.URL) {
		return o, true, nil
	}
	if w.cfg.Earlier == nil || x.Here {
		return o, false, nil
	}
	o, ok, err = w.cfg.Earlier.Find(g.body, g.digest, size)
	g.earlier = ok && (!x.Own || o.URL == x.URL)
	return o, g.earlier, err
}

// unclearDigest returns the payload digest of an HTTP message whose header has no clear end. It is the digest that an
// indexer computes from the record.
func unclearDigest(r io.Reader) ([]byte, error) {
	_, rest, _, err := readHeadFrom(r)
	if err != nil {
		return nil, err
	}
	sum := sha1.New()
	sum.Write(rest)
	if _, err := io.Copy(sum, r); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

func (g *group) refer(profile string, from Original) {
	g.field("WARC-Profile", profile)
	if from.ID != [16]byte{} {
		g.idField("WARC-Refers-To", from.ID)
	}
	if from.URL != "" {
		g.head = append(g.head, "WARC-Refers-To-Target-URI: "...)
		g.head = append(appendURI(g.head, from.URL), "\r\n"...)
	}
	if !from.Date.IsZero() {
		g.head = append(g.head, "WARC-Refers-To-Date: "...)
		if g.earlier { // its index tells seconds
			g.head = from.Date.UTC().AppendFormat(g.head, "2006-01-02T15:04:05Z")
		} else {
			g.head = appendDate(g.head, from.Date)
		}
		g.head = append(g.head, "\r\n"...)
	}
}

const fieldIdentified = "WARC-Identified-Payload-Type"

func truncation(s string) string {
	switch s {
	case "length", "time", "disconnect":
		return s
	}
	return "unspecified"
}

// httpHead returns the bytes of the HTTP header, nil if there is none.
func (g *group) httpHead(x *Exchange, isHTTP bool, whole []byte, inMemory bool) ([]byte, error) {
	if !isHTTP {
		return nil, nil
	}
	if inMemory {
		return whole[:x.HeadLen], nil
	}
	if cap(g.http) < x.HeadLen {
		g.http = make([]byte, x.HeadLen)
	}
	g.http = g.http[:x.HeadLen]
	if n, err := x.Response.ReadAt(g.http, 0); n < len(g.http) {
		return nil, short(err)
	}
	return g.http, nil
}

// hash computes the payload digest. If the response must be read from a file, hash computes the block digest in the
// same pass. A response in memory may turn out to be a revisit, whose block is shorter, so its block digest comes
// later.
func (g *group) hash(b Body, head, whole []byte, inMemory bool, size int64) error {
	g.block.Reset()
	g.payload.Reset()
	if inMemory {
		g.payload.Write(whole[len(head):])
	} else {
		g.block.Write(head)
		err := g.each(b, int64(len(head)), size, func(p []byte) error {
			g.block.Write(p)
			g.payload.Write(p)
			return nil
		})
		if err != nil {
			return err
		}
	}
	g.payload.Sum(g.digest[:0])
	return nil
}

// hashBody computes the digest of a chunked body without its chunk sizes. A body whose chunks are broken keeps the
// digest of its bytes.
func (g *group) hashBody(b Body, head, whole []byte, inMemory bool, size int64) error {
	var c message.Chunks
	g.payload.Reset()
	add := func(p []byte) error {
		for len(p) > 0 {
			data, n := c.Next(p)
			if n == 0 {
				break
			}
			g.payload.Write(data)
			p = p[n:]
		}
		return nil
	}
	if inMemory {
		_ = add(whole[len(head):])
	} else if err := g.each(b, int64(len(head)), size, add); err != nil {
		return err
	}
	if c.Ended() {
		g.payload.Sum(g.body[:0])
	}
	return nil
}

// frame prepares the revisit of an original whose payload is stored with other framing, that is, one of both has chunk
// sizes. Replay tools read the original's bytes under the header of the revisit. So the header gets the framing of the
// original, and its own fields stay under other names. The payload digest becomes the original's.
func (g *group) frame(head []byte, original Original) []byte {
	own, chunked := g.body != g.digest, original.Stored != [20]byte{}
	g.digest = g.body
	if chunked {
		g.digest = original.Stored
	}
	if own == chunked {
		return head
	}
	g.framed = g.framed[:0]
	for line, rest := cutLine(head); len(line) > 0; line, rest = cutLine(rest) {
		name, _, _ := bytes.Cut(line, []byte{':'})
		switch name = bytes.TrimRight(name, " \t"); {
		case len(bytes.TrimRight(line, "\r\n")) == 0 && chunked:
			g.framed = append(g.framed, "Transfer-Encoding: chunked\r\n"...)
		case fold(name, "transfer-encoding"), fold(name, "content-length"):
			g.framed = append(g.framed, "X-Orig-"...)
		}
		g.framed = append(g.framed, line...)
	}
	return g.framed
}

// each calls f with the bytes of b from off to size, in pieces.
func (g *group) each(b Body, off, size int64, f func([]byte) error) error {
	if g.chunk == nil {
		g.chunk = make([]byte, chunkSize)
	}
	for off < size {
		p := g.chunk[:min(size-off, chunkSize)]
		if n, err := b.ReadAt(p, off); n < len(p) {
			return short(err)
		}
		if err := f(p); err != nil {
			return err
		}
		off += int64(len(p))
	}
	return nil
}

// writePieces compresses a response piece by piece into dst, which is the WARC file if g.direct is set.
func (g *group) writePieces(x *Exchange, dst io.Writer) error {
	g.m.begin(dst)
	g.m.pack(g.piecesHead)
	size, head := x.Response.Size(), int64(0)
	add := g.m.pack
	if g.store {
		head = int64(x.HeadLen)
		if err := g.each(x.Response, 0, head, func(p []byte) error { g.m.pack(p); return g.m.err }); err != nil {
			return err
		}
		add = g.m.store
	}
	if err := g.each(x.Response, head, size, func(p []byte) error { add(p); return g.m.err }); err != nil {
		return err
	}
	return g.m.end()
}

// short converts the error of a read that returned too few bytes: an early end becomes io.ErrUnexpectedEOF.
func short(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// trim drops buffers that a large exchange made grow, and returns the token.
func (g *group) trim() {
	defer func() {
		if g.token {
			<-g.large
			g.token = false
		}
	}()
	if cap(g.out.b) > keepBytes {
		g.out.b = nil
	}
	if cap(g.http) > keepBytes {
		g.http = nil
	}
	if cap(g.framed) > keepBytes {
		g.framed = nil
	}
	if cap(g.fields) > keepBytes {
		g.fields = nil
	}
}
