package warc

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"io"
	mrand "math/rand/v2"
	"net/netip"
	"strconv"
	"time"
)

// A Field is one line of a header or of an application/warc-fields block.
type Field struct{ Name, Value string }

// A Body holds the bytes of a response as they came from the server: header and body.
type Body interface {
	io.ReaderAt
	// Size returns the number of bytes.
	Size() int64
	// Bytes returns all bytes and true if they are in memory.
	Bytes() ([]byte, bool)
}

// Bytes is a Body in memory.
type Bytes []byte

func (b Bytes) Size() int64 { return int64(len(b)) }

func (b Bytes) Bytes() ([]byte, bool) { return b, true }

func (b Bytes) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// An Exchange is one request and the response to it.
type Exchange struct {
	URL     string     // canonical
	Addr    netip.Addr // of the server; the zero Addr means unknown
	Began   time.Time  // becomes the records' WARC-Date, in milliseconds
	Request []byte     // as sent; empty: no request record
	Over    Transport
	// Response is what the server sent. Nil or of no bytes: no response record.
	Response Body
	// HTTP means that Response begins with a whole HTTP header of HeadLen bytes, including the empty line. If it is
	// false, the bytes become a resource record of type application/octet-stream: readers expect HTTP in a
	// "response" record of an http URL and would take other bytes for a header.
	HTTP    bool
	HeadLen int
	// PayloadType is the media type that the bytes of the payload show (message.Identify). Empty: they show none.
	PayloadType string
	// Truncated is the reason why the body is incomplete: length, time, disconnect or unspecified (ISO 28500, 5.13).
	// Empty: the body is complete.
	Truncated string
	// NotModified is the earlier response that a 304 confirms. The record becomes a revisit of profile
	// server-not-modified. Nil otherwise.
	NotModified *Original
	// Same is an earlier response with the same body, in this or another archive. If Digests returns ok for
	// this Exchange, its record becomes a revisit of profile identical-payload-digest. Nil: the Writer looks for an
	// original among the payloads that it remembers.
	Same *Original
	// Own means that other records may refer to this one. Unless Same is set, the record then becomes a revisit only
	// of a record with the same URL.
	Own bool
	// Here means that the record must not refer to a record of an earlier crawl.
	Here bool
	// Robots means that the request was for a robots.txt (see Segments).
	Robots bool
	// Metadata is the content of the metadata record; empty: no metadata record. The index line of the response has
	// the values of the fields FieldCharset and those below it.
	Metadata []Field
}

// Written reports where Write put an Exchange.
type Written struct {
	File   string // final name of the WARC file, without directory
	Offset int64  // of the response, revisit or resource record
	Length int64  // of its gzip member
	End    int64  // offset behind the exchange's last record
	// PayloadDigest is the record's WARC-Payload-Digest: the SHA-1 of the bytes after the HTTP header, as they came
	// from the server. Without an HTTP header it covers all bytes. A revisit record has that of its original.
	PayloadDigest [20]byte
	// BodyDigest is the SHA-1 of the body without chunk sizes, by which Write finds an earlier response with the same
	// payload. It is PayloadDigest if the body has none.
	BodyDigest [20]byte
	// Revisit means that the archive had the payload already.
	Revisit bool
	// Earlier means that Original is a record of an earlier crawl, which Config.Earlier has found.
	Earlier bool
	// Original is the record that holds the payload: this one or, for a revisit, the one that it refers to. Zero if
	// there is no response or it is not HTTP.
	Original Original
}

// Digest returns the payload digest as WARC and crawl.log spell it: "sha1:" and base32.
func (w Written) Digest() string { return string(appendDigest(nil, w.PayloadDigest[:])) }

// The profiles of revisit records (ISO 28500, 6.7).
const (
	ProfileIdentical   = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	ProfileNotModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

const (
	typeResponse = "application/http;msgtype=response"
	typeRequest  = "application/http;msgtype=request"
	typeFields   = "application/warc-fields"
	typeBytes    = "application/octet-stream"
)

// A group encodes the records of one exchange before they go to the file. Groups are pooled.
type group struct {
	level   int
	m       member // for compressed data, and for data that one stored block cannot hold
	out     slab   // finished members
	head    []byte // WARC header of the current record
	http    []byte // HTTP header of a response that is not in memory
	framed  []byte // HTTP header of a revisit whose original has another framing
	chunk   []byte // buffer for reading such a response
	fields  []byte // warc-fields block
	cdx     []byte // index line, without the record's place in the file
	date    []byte // WARC-Date of all records
	stamp   []byte // the same date as the index spells it
	block   hash.Hash
	payload hash.Hash
	sum     [20]byte
	rand    *mrand.ChaCha8

	stream   *stream   // to which the records go
	info     *warcinfo // of the file that the records are for
	id       [16]byte  // of the response record
	first    int       // bytes of the first member in out
	digest   [20]byte
	body     [20]byte // the digest without chunk sizes
	earlier  bool     // from is a record of an earlier crawl
	coded    bool     // the metadata record tells body
	remember bool     // the table of revisits must get this payload once it is written
	from     Original

	// A response that is large or not in memory is read in pieces. Up to largeBytes its member is put together in
	// memory, and over pieceBytes that takes a token of large. Over largeBytes it is compressed directly into the
	// file.
	direct     bool
	piecesHead []byte // WARC header of such a response
	store      bool   // its body is stored without compression
	largeBytes int64
	large      chan struct{}
	token      bool // taken from large
}

func newGroup(level int, largeBytes int64, large chan struct{}) *group {
	var seed [32]byte
	rand.Read(seed[:])
	return &group{
		level: level, m: member{level: level}, block: sha1.New(), payload: sha1.New(),
		rand: mrand.NewChaCha8(seed), largeBytes: largeBytes, large: large,
	}
}

// newID returns a random UUID.
func (g *group) newID() (id [16]byte) {
	binary.LittleEndian.PutUint64(id[:], g.rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], g.rand.Uint64())
	return uuid(id)
}

// uuid makes a UUID of random bytes (RFC 9562, version 4).
func uuid(id [16]byte) [16]byte {
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// A warcinfo is the first record of a file, to which all others refer.
type warcinfo struct {
	id   [16]byte
	line string // the field WARC-Warcinfo-ID, with its line end
}

func newWarcinfo() *warcinfo {
	w := &warcinfo{}
	rand.Read(w.id[:])
	w.id = uuid(w.id)
	w.line = "WARC-Warcinfo-ID: " + string(appendID(nil, w.id)) + "\r\n"
	return w
}

func appendID(b []byte, id [16]byte) []byte {
	b = append(b, "<urn:uuid:"...)
	b = hex.AppendEncode(b, id[:4])
	for _, p := range [...][2]int{{4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		b = append(b, '-')
		b = hex.AppendEncode(b, id[p[0]:p[1]])
	}
	return append(b, '>')
}

func appendDigest(b []byte, sum []byte) []byte {
	return base32.StdEncoding.AppendEncode(append(b, "sha1:"...), sum)
}

func appendDate(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// dates formats the date of the exchange once for all its records.
func (g *group) dates(t time.Time) {
	t = t.UTC()
	g.date = appendDate(g.date[:0], t)
	g.stamp = t.AppendFormat(g.stamp[:0], time14)
}

// start begins the WARC header in g.head. url may be empty.
func (g *group) start(kind string, id [16]byte, url string) {
	b := append(g.head[:0], "WARC/1.1\r\nWARC-Type: "...)
	b = append(b, kind...)
	b = append(b, "\r\nWARC-Record-ID: "...)
	b = appendID(b, id)
	b = append(b, "\r\nWARC-Date: "...)
	b = append(b, g.date...)
	b = append(b, "\r\n"...)
	if url != "" {
		b = append(b, "WARC-Target-URI: "...)
		b = appendURI(b, url)
		b = append(b, "\r\n"...)
	}
	if kind != "warcinfo" {
		b = append(b, g.info.line...)
	}
	g.head = b
}

func (g *group) field(name, value string) {
	g.head = append(g.head, name...)
	g.head = append(g.head, ": "...)
	g.head = append(g.head, value...)
	g.head = append(g.head, "\r\n"...)
}

func (g *group) idField(name string, id [16]byte) {
	g.head = append(g.head, name...)
	g.head = append(g.head, ": "...)
	g.head = appendID(g.head, id)
	g.head = append(g.head, "\r\n"...)
}

func (g *group) digestField(name string, sum []byte) {
	g.head = append(g.head, name...)
	g.head = append(g.head, ": "...)
	g.head = appendDigest(g.head, sum)
	g.head = append(g.head, "\r\n"...)
}

// finish ends the WARC header in g.head.
func (g *group) finish(contentType string, length int64) {
	g.field("Content-Type", contentType)
	g.head = append(g.head, "Content-Length: "...)
	g.head = strconv.AppendInt(g.head, length, 10)
	g.head = append(g.head, "\r\n\r\n"...)
}

func (g *group) addr(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	g.head = append(g.head, "WARC-IP-Address: "...)
	g.head = a.Unmap().WithZone("").AppendTo(g.head)
	g.head = append(g.head, "\r\n"...)
}

// appendURI appends url and percent-encodes every byte that is not visible ASCII, so that the URL stays on its line.
func appendURI(b []byte, url string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(url) {
		if c := url[i]; c <= ' ' || c >= 0x7f {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// lineURI is appendURI for a string. It does not allocate if nothing needs encoding, as in most URLs.
func lineURI(url string) string {
	for i := range len(url) {
		if url[i] <= ' ' || url[i] >= 0x7f {
			return string(appendURI(nil, url))
		}
	}
	return url
}

// appendFields appends a warc-fields block. In values, control characters become blanks. In names, every byte that is
// not visible ASCII, and the colon, becomes an underscore. A field without a name is left out.
func appendFields(b []byte, fields []Field) []byte {
	for _, f := range fields {
		if f.Name == "" {
			continue
		}
		for i := range len(f.Name) {
			if c := f.Name[i]; c <= ' ' || c == ':' || c >= 0x7f {
				b = append(b, '_')
			} else {
				b = append(b, c)
			}
		}
		b = append(b, ": "...)
		for i := range len(f.Value) {
			if c := f.Value[i]; c < ' ' || c == 0x7f {
				b = append(b, ' ')
			} else {
				b = append(b, c)
			}
		}
		b = append(b, "\r\n"...)
	}
	return b
}

// small appends a whole record whose header was begun in g.head.
func (g *group) small(contentType string, block []byte) error {
	g.block.Reset()
	g.block.Write(block)
	g.digestField("WARC-Block-Digest", g.block.Sum(g.sum[:0]))
	g.finish(contentType, int64(len(block)))
	return g.record(block, nil, false)
}

// smallBytes is the size in bytes from which a block is compressed at level 1. A smaller block is stored: to compress
// it takes about as long as a page and saves 200 bytes.
const smallBytes = 2 << 10

// record appends the member of a record whose header is in g.head and whose block is lines followed by body. If store
// is true, the body is not compressed.
func (g *group) record(lines, body []byte, store bool) error {
	size := len(g.head) + len(lines) + len(body) + len(recordEnd)
	if g.level == 1 && (store || len(lines)+len(body) < smallBytes) || g.level < 0 {
		if size <= maxStored {
			g.whole(lines, body, size)
			return nil
		}
		store = true
		g.m.begin(&g.out)
		g.m.store(g.head)
		g.m.store(lines)
	} else {
		g.m.begin(&g.out)
		g.m.pack(g.head)
		g.m.pack(lines)
	}
	if store {
		g.m.store(body)
	} else {
		g.m.pack(body)
	}
	return g.m.end()
}

// whole appends a record's member as a single stored block.
func (g *group) whole(lines, body []byte, size int) {
	b := append(append(g.out.b, gzipHead[:]...), 1)
	b = binary.LittleEndian.AppendUint16(b, uint16(size))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(size))
	b = append(append(append(append(b, g.head...), lines...), body...), recordEnd...)
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[len(b)-size:]))
	g.out.b = binary.LittleEndian.AppendUint32(b, uint32(size))
}
