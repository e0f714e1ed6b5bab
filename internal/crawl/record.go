package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Kinds of journal records. A page's batch is its accepts, then its finish.
//
//	A accept   a Link in its one encoding
//	E foreign  like A, for a Link that another agent crawls; it has a number
//	           among the accepts, too
//	B between  like E, for a Link that another agent has sent and a third one
//	           crawls; the seen-set has no key of it
//	Y sent     numbers of E and B records that have ended, see appendSent
//	F finish   see finish
//	C crawl    the first record of a journal or snapshot: 1 byte, the version of
//	           these kinds, and 16 bytes, the crawl's id, which the seen-set has, too
//	H host     a frontier.HostState: politeness that outlives the process
//	G gone     a drop of a host's links, see appendDrop
//	R robots   a robots.Entry
//	K keys     part: keys of the seen-set, 16 bytes each, big-endian
//	J          part: like K, for E records
//	U          like K, for finished URLs, see doneKey
//	P pending  part: uvarint number of a Link that was accepted and is not
//	           finished, and the Link
//	O outbound part: like P, for an E or a B record
//	N number   snapshot: uvarint number of the last accept before it
//	X done     snapshot: the numbers of finished Links that its parts still
//	           have, see appendRuns, in pieces like T
//	L held     a mark about held-back links, see appendHeld; empty: finishes from
//	           here on count only if an L with a number of files follows
//	D digest   snapshot: a payload to recognize, see appendOriginal
//	Q queries  snapshot: paths and how many queries they had, 8 and 4 bytes
//	           each, big-endian
//	V visited  snapshot: a Planner's state of a URL, see appendState
//	T tally    snapshot: the report's counts in pieces; before each piece is a byte
//	           that is 1 if more pieces follow
//	S span     when the crawl began, Unix microseconds, and how long its runs
//	           took, microseconds (two uvarints), and when this was written, Unix
//	           microseconds (a uvarint; missing in older journals)
//	h handed   the state of a host that was given away, see appendHanded
//	M list     truncated keys of the seen-set, see appendList
//	Z absent   like M, for links that wait here and are finished on other agents
//	a again    a Link that is accepted again: the next accept is of the same Link,
//	           see SeedAgain
//	f failed   snapshot: a Link that SeedAgain would accept again
//	W seed     a URL that a seed redirected to, and that widens the scope
const (
	kindAccept  byte = 'A'
	kindFinish  byte = 'F'
	kindHost    byte = 'H'
	kindRobots  byte = 'R'
	kindKeys    byte = 'K'
	kindTally   byte = 'T'
	kindSpan    byte = 'S'
	kindSeed    byte = 'W'
	kindAgain   byte = 'a'
	kindFailed  byte = 'f'
	kindPending byte = 'P'
	kindNumber  byte = 'N'
	kindDone    byte = 'X'
	kindDigest  byte = 'D'
	kindQueries byte = 'Q'
	kindState   byte = 'V'
	kindCrawl   byte = 'C'
	kindHeld    byte = 'L'
	kindDrop    byte = 'G'
	kindForeign byte = 'E'
	kindPassed  byte = 'B'
	kindSent    byte = 'Y'
	kindOutward byte = 'O'

	kindForeignKeys byte = 'J'
	kindHanded      byte = 'h'
	kindList        byte = 'M'
	kindAbsent      byte = 'Z'
	kindDoneKeys    byte = 'U'
)

// tallyPiece bounds the size of a tally record in bytes. A crawl of many hosts has a large
// tally, and a record is in memory several times while it is written or read.
var tallyPiece = 256 << 10

var errRecord = errors.New("damaged journal record")

// ErrVersion reports a journal whose records another version of this program wrote.
var ErrVersion = errors.New("journal records of another version: continue with the program that started the " +
	"crawl, or begin it anew with --overwrite")

// finish is the durable record that a URL is finished. It has enough data to omit the URL from
// the frontier, to count it again, and to check that its WARC record is complete.
type finish struct {
	link   weburl.Link // URL and Hops; Via is in the log
	number uint64      // of its accept; 0: none, as for a robots.txt or a URL that was finished before
	code   int         // as in crawl.log
	kind   string      // of the error; empty for none
	cause  string      // text of the error, at most maxCause bytes
	mime   string
	size   int64
	began  time.Time     // in microseconds
	took   time.Duration // in microseconds
	delay  time.Duration // Crawl-delay of the host
	flags  byte
	digest [20]byte
	file   string // WARC file; empty if nothing was archived
	end    int64  // offset in file of the end of the visit's last record
	tries  int    // number of visits before this one
	found  int    // number of references on the page
	skips  []skipCount
	state  []byte // the Planner's new state of the URL; empty: no change
}

// A skipCount is the number of links of a page that were not accepted for one reason.
type skipCount struct {
	reason string
	n      int
}

const (
	flagPage      = 1 << iota // a 2xx response to a URL of the frontier
	flagDuplicate             // a revisit record
	flagTruncated
	flagRobots    // a robots.txt: logged and counted, but not a URL of the frontier
	flagAgain     // the URL was finished before
	flagUnchanged // and its content has not changed
	flagUnknown   // and it is not known whether its content has changed
)

func (f *finish) appendTo(dst []byte) []byte {
	str := func(s string) {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	dst = f.link.AppendTo(dst)
	dst = binary.AppendUvarint(dst, f.number)
	dst = binary.AppendVarint(dst, int64(f.code))
	if f.cause == "" {
		str(f.kind)
	} else {
		str(f.kind + "\x00" + f.cause)
	}
	str(f.mime)
	dst = binary.AppendUvarint(dst, uint64(f.size))
	dst = binary.AppendVarint(dst, f.began.UnixMicro())
	dst = binary.AppendUvarint(dst, uint64(f.took.Microseconds()))
	dst = binary.AppendUvarint(dst, uint64(f.delay.Microseconds()))
	dst = append(dst, f.flags)
	dst = append(dst, f.digest[:]...)
	str(f.file)
	for _, n := range [...]int64{f.end, int64(f.tries), int64(f.found), int64(len(f.skips))} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, s := range f.skips {
		str(s.reason)
		dst = binary.AppendUvarint(dst, uint64(s.n))
	}
	return append(dst, f.state...) // to the end
}

func decodeFinish(src []byte) (f finish, err error) {
	l, n, err := weburl.DecodeLink(src)
	if err != nil {
		return f, err
	}
	f.link, src = l, src[n:]
	bad := false
	uv := func() uint64 {
		v, n := binary.Uvarint(src)
		if n <= 0 {
			bad = true
			return 0
		}
		src = src[n:]
		return v
	}
	iv := func() int64 {
		v, n := binary.Varint(src)
		if n <= 0 {
			bad = true
			return 0
		}
		src = src[n:]
		return v
	}
	str := func() string {
		n := uv()
		if n > uint64(len(src)) {
			bad = true
			return ""
		}
		s := string(src[:n])
		src = src[n:]
		return s
	}
	f.number = uv()
	f.code = int(iv())
	f.kind, f.cause, _ = strings.Cut(str(), "\x00")
	f.mime = str()
	f.size = int64(uv())
	f.began = time.UnixMicro(iv()).UTC()
	f.took = time.Duration(uv()) * time.Microsecond
	f.delay = time.Duration(uv()) * time.Microsecond
	if len(src) < 21 {
		return f, errRecord
	}
	f.flags = src[0]
	copy(f.digest[:], src[1:])
	src = src[21:]
	f.file = str()
	f.end, f.tries, f.found = int64(uv()), int(uv()), int(uv())
	for n := uv(); n > 0 && !bad; n-- {
		f.skips = append(f.skips, skipCount{str(), int(uv())})
	}
	if bad {
		return f, errRecord
	}
	if len(src) > 0 {
		f.state = src
	}
	return f, nil
}

// recordsVersion is the version of the kinds of records.
const recordsVersion = 1

func appendCrawl(dst []byte, id keyset.Crawl) []byte {
	return append(append(dst, recordsVersion), id[:]...)
}

// decodeCrawl reads the first record of a journal.
func decodeCrawl(kind byte, p []byte) (id keyset.Crawl, err error) {
	if kind != kindCrawl || len(p) == 0 || p[0] != recordsVersion {
		return id, fmt.Errorf("%w: it begins with a record of kind %q, %x", ErrVersion, kind, p[:min(len(p), 1)])
	}
	if len(p) != 1+len(id) {
		return id, errRecord
	}
	copy(id[:], p[1:])
	return id, nil
}

func (c *Crawler) span(now time.Time) []byte {
	b := binary.AppendUvarint(nil, uint64(max(c.Tally.Started().UnixMicro(), 0)))
	b = binary.AppendUvarint(b, uint64(c.Elapsed(now).Microseconds()))
	return binary.AppendUvarint(b, uint64(max(now.UnixMicro(), 0)))
}

// decodeSpan decodes what span returned. Times that are not known are zero.
func decodeSpan(src []byte) (started time.Time, took time.Duration, written time.Time, err error) {
	var v [3]uint64
	for i := range v {
		if i == 2 && len(src) == 0 {
			break
		}
		x, n := binary.Uvarint(src)
		if n <= 0 {
			return started, 0, written, errRecord
		}
		v[i], src = x, src[n:]
	}
	if len(src) > 0 {
		return started, 0, written, errRecord
	}
	if v[0] > 0 {
		started = time.UnixMicro(int64(v[0])).UTC()
	}
	if v[2] > 0 {
		written = time.UnixMicro(int64(v[2])).UTC()
	}
	return started, time.Duration(v[1]) * time.Microsecond, written, nil
}

// appendOriginal appends the encoding of a payload and the record that has it:
//
//	20 bytes SHA-1 · 16 bytes record id · varint Unix milliseconds · the URL
func appendOriginal(dst []byte, digest [20]byte, o warc.Original) []byte {
	dst = append(dst, digest[:]...)
	dst = append(dst, o.ID[:]...)
	dst = binary.AppendVarint(dst, o.Date.UnixMilli())
	return append(dst, o.URL...)
}

func decodeOriginal(src []byte) (digest [20]byte, o warc.Original, err error) {
	if len(src) < 37 {
		return digest, o, errRecord
	}
	copy(digest[:], src)
	copy(o.ID[:], src[20:])
	ms, n := binary.Varint(src[36:])
	if n <= 0 {
		return digest, o, errRecord
	}
	o.Date, o.URL = time.UnixMilli(ms).UTC(), string(src[36+n:])
	return digest, o, nil
}

func appendKeys(dst []byte, ks []weburl.Key) []byte {
	for _, k := range ks {
		dst = binary.BigEndian.AppendUint64(dst, k.Host)
		dst = binary.BigEndian.AppendUint64(dst, k.Path)
	}
	return dst
}

func decodeKeys(dst []weburl.Key, src []byte) ([]weburl.Key, error) {
	if len(src)%16 != 0 {
		return dst, errRecord
	}
	for ; len(src) > 0; src = src[16:] {
		dst = append(dst, weburl.Key{Host: binary.BigEndian.Uint64(src), Path: binary.BigEndian.Uint64(src[8:])})
	}
	return dst, nil
}
