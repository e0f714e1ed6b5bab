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

// A Body is the bytes of a response as they came: header and body.
type Body interface {
	io.ReaderAt
	// Size is the number of bytes.
	Size() int64
	// Bytes returns all of them if they are in memory.
	Bytes() ([]byte, bool)
}

// Bytes is a Body in memory.
type Bytes []byte

// Size implements Body.
func (b Bytes) Size() int64 { return int64(len(b)) }

// Bytes implements Body.
func (b Bytes) Bytes() ([]byte, bool) { return b, true }

// ReadAt implements Body.
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

// An Exchange is one request and what came back.
type Exchange struct {
	URL     string     // canonical
	Addr    netip.Addr // of the server; invalid: not known
	Began   time.Time  // the records' WARC-Date, kept to the millisecond
	Request []byte     // as sent; empty: no request record
	// Response is what came, nil if nothing did: then there is no response
	// record.
	Response Body
	// HTTP says that Response begins with a whole HTTP header of HeadLen
	// bytes, empty line included. Other bytes become a resource record of
	// type application/octet-stream: what a "response" record of an http URL
	// holds must be HTTP, and readers would take garbage for a header.
	HTTP    bool
	HeadLen int
	// Truncated is why the body is not whole: length, time, disconnect or
	// unspecified (ISO 28500, 5.13); empty if it is.
	Truncated string
	// NotModified is the earlier response that a 304 confirms: it makes the
	// record a revisit of profile server-not-modified. Nil otherwise.
	NotModified *Original
	// Same is an earlier response with this payload, wherever it is archived: it
	// makes the record a revisit of profile identical-payload-digest, if
	// PayloadDigest has one. Nil: the Writer looks for one of its own.
	Same *Original
	// Own says that others may refer to this record: it is no revisit of another
	// URL's that has the same payload, but for Same.
	Own bool
	// Metadata is the block of the metadata record; empty: none.
	Metadata []Field
}

// Written is where an Exchange went.
type Written struct {
	File   string // name of the WARC file when it is finished, without directory
	Offset int64  // of the response, revisit or resource record
	Length int64  // of its gzip member
	End    int64  // of the exchange's last record
	// PayloadDigest is the SHA-1 of the bytes after the HTTP header, as they
	// came; of all bytes where there is no header.
	PayloadDigest [20]byte
	// Revisit says that the payload was in the archive already.
	Revisit bool
	// Original is the record that has the payload: this one, or what it
	// refers to as a revisit. Zero where there is no response or it is no HTTP.
	Original Original
}

// Digest is the payload's digest as WARC and crawl.log write it.
func (w Written) Digest() string { return string(appendDigest(nil, w.PayloadDigest[:])) }

// Profiles of revisit records (ISO 28500, 6.7).
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

// A group is the records of one exchange on their way to the file. Groups are
// pooled.
type group struct {
	level   int
	m       member // for what is compressed, and for what one block cannot hold
	out     slab   // finished members
	head    []byte // WARC header of the record in hand
	http    []byte // HTTP header of a response that is not in memory
	chunk   []byte // for reading such a response
	fields  []byte // warc-fields block
	cdx     []byte // index line as far as it is known before the append
	date    []byte // of all records, as WARC writes it
	stamp   []byte // it, as the index writes it
	block   hash.Hash
	payload hash.Hash
	sum     [20]byte
	rand    *mrand.ChaCha8

	id     [16]byte // of the response record
	first  int      // bytes of the first member in out
	digest [20]byte
	fresh  bool // a payload to remember once it is written
	from   Original

	// A large response, or one that is not in memory, is read in pieces. The
	// members of some are put together in memory, under a token of large each;
	// what is over largeBytes is compressed into the file.
	late       bool
	lateHead   []byte
	store      bool // its body is kept as it is
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

// newID makes a random UUID (RFC 9562, version 4).
func (g *group) newID() (id [16]byte) {
	binary.LittleEndian.PutUint64(id[:], g.rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], g.rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
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

// dates writes the exchange's date once for all its records.
func (g *group) dates(t time.Time) {
	t = t.UTC()
	g.date = appendDate(g.date[:0], t)
	g.stamp = t.AppendFormat(g.stamp[:0], time14)
}

// start begins the WARC header in g.head. The URL may be empty.
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

// finish ends the WARC header.
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

// appendURI keeps a URL on its line: what is no visible ASCII is percent-encoded.
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

// lineURI is appendURI for a string; most URLs are as they should be.
func lineURI(url string) string {
	for i := range len(url) {
		if url[i] <= ' ' || url[i] >= 0x7f {
			return string(appendURI(nil, url))
		}
	}
	return url
}

// appendFields writes a warc-fields block. Whatever would break a line, or a
// name, becomes a blank or an underscore.
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

// small writes a whole record whose header is begun in g.head.
func (g *group) small(contentType string, block []byte) error {
	g.block.Reset()
	g.block.Write(block)
	g.digestField("WARC-Block-Digest", g.block.Sum(g.sum[:0]))
	g.finish(contentType, int64(len(block)))
	return g.record(block, nil, false)
}

// smallBytes is the least block that is compressed at level 1. Less is stored:
// it would take an encoder about as long as a page, to save 200 bytes.
const smallBytes = 2 << 10

// record appends the member of a record whose header is in g.head and whose
// block is lines and body; store keeps the body as it is.
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

// whole appends a record's member as one stored block.
func (g *group) whole(lines, body []byte, size int) {
	b := append(append(g.out.b, gzipHead[:]...), 1)
	b = binary.LittleEndian.AppendUint16(b, uint16(size))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(size))
	b = append(append(append(append(b, g.head...), lines...), body...), recordEnd...)
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[len(b)-size:]))
	g.out.b = binary.LittleEndian.AppendUint32(b, uint32(size))
}
