package warc

import (
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// maxIndexURL is the longest URL, in bytes, that gets an index line. pywb holds lines in memory, and so does the sort
// of this package.
const maxIndexURL = 256 << 10

// A Line is one line of a CDXJ index and describes one capture. Empty fields are left out of the file.
type Line struct {
	SURT     string
	Time     string // 14 digits
	URL      string
	MIME     string // "warc/revisit" for a revisit
	Detected string // WARC-Identified-Payload-Type
	Status   string
	Digest   string // base32, without "sha1:"
	Length   int64  // in bytes, of the gzip member or plain record
	Offset   int64
	File     string

	// The keys of Common Crawl's index.
	Charset   string // such as "UTF-8"
	Languages string // ISO 639-3 codes, such as "eng,fra"
	Truncated string // WARC-Truncated
	Redirect  string // the target of a redirect

	// Keys of our own, for readers that want no second reading of the archive.
	Hops      string // the path from the seed; empty: a seed, or nothing tells it
	Via       string // the page with the link
	Fetched   string // the HTTP status of a revisit, whose Status is empty
	Duplicate string // the URL of the original of a revisit
	Near      string // the URL of the page that has nearly the same text
	Category  string // the topic of the page
	Body      string // the digest of the body without chunk sizes, if it is stored with them
}

// Taken returns the time of the capture, in UTC.
func (l *Line) Taken() (time.Time, error) {
	if len(l.Time) != len(time14) { // time.Parse would take a fraction of a second
		return time.Time{}, fmt.Errorf("time %.20q: not 14 digits", l.Time)
	}
	return time.Parse(time14, l.Time)
}

// AppendTo appends the line, with its line feed, to dst and returns the result. It spells the line as pywb does, and
// puts the keys that pywb does not write behind the digest.
func (l Line) AppendTo(dst []byte) []byte {
	dst = l.appendFront(dst)
	return appendPlace(dst, l.Length, l.Offset, l.File)
}

// appendFront appends the part of the line that does not depend on the record's place in the file.
func (l *Line) appendFront(dst []byte) []byte {
	dst = append(dst, l.SURT...)
	dst = append(dst, ' ')
	dst = append(dst, l.Time...)
	dst = append(dst, ` {"url": `...)
	dst = appendJSON(dst, l.URL)
	dst = appendField(dst, "mime", l.MIME, maxIndexField)
	dst = appendField(dst, "mime-detected", l.Detected, maxIndexField)
	dst = appendField(dst, "status", l.Status, maxIndexField)
	dst = appendField(dst, "digest", l.Digest, maxIndexField)
	dst = appendField(dst, "charset", l.Charset, maxIndexField)
	dst = appendField(dst, "languages", l.Languages, maxIndexField)
	dst = appendField(dst, "truncated", l.Truncated, maxIndexField)
	dst = appendField(dst, "redirect", l.Redirect, maxRedirect)
	dst = appendField(dst, "hops", l.Hops, maxRedirect)
	dst = appendField(dst, "via", l.Via, maxRedirect)
	dst = appendField(dst, "fetched-status", l.Fetched, maxIndexField)
	dst = appendField(dst, "duplicate-of", l.Duplicate, maxRedirect)
	dst = appendField(dst, "near-duplicate-of", l.Near, maxRedirect)
	dst = appendField(dst, "category", l.Category, maxIndexField)
	return appendField(dst, "body-digest", l.Body, maxIndexField)
}

// maxIndexField is the longest value, in bytes, of a field other than the URL. Servers choose these values, and pywb
// reads whole lines into memory.
const maxIndexField = 255

// appendField appends a field of the JSON object. It leaves out a value that is empty or longer than most bytes.
func appendField(dst []byte, name, value string, most int) []byte {
	if value == "" || value == "-" || len(value) > most {
		return dst
	}
	dst = append(dst, `, "`...)
	dst = append(dst, name...)
	dst = append(dst, `": `...)
	return appendJSON(dst, value)
}

func appendPlace(dst []byte, length, offset int64, file string) []byte {
	dst = append(dst, `, "length": "`...)
	dst = strconv.AppendInt(dst, length, 10)
	dst = append(dst, `", "offset": "`...)
	dst = strconv.AppendInt(dst, offset, 10)
	dst = append(dst, `", "filename": `...)
	dst = appendJSON(dst, file)
	return append(dst, "}\n"...)
}

// appendJSON quotes s in ASCII. If s is not UTF-8, it is taken for Latin-1, as warcio does.
func appendJSON(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	u16 := func(r rune) {
		dst = append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
	}
	valid := utf8.ValidString(s)
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf || !valid {
			i++
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, '\\', 'n')
			case c == '\r':
				dst = append(dst, '\\', 'r')
			case c == '\t':
				dst = append(dst, '\\', 't')
			case c == '\b':
				dst = append(dst, '\\', 'b')
			case c == '\f':
				dst = append(dst, '\\', 'f')
			case c < ' ' || c >= utf8.RuneSelf:
				u16(rune(c))
			default:
				dst = append(dst, c)
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if r >= 0x10000 {
			r -= 0x10000
			u16(0xd800 + r>>10)
			u16(0xdc00 + r&0x3ff)
		} else {
			u16(r)
		}
	}
	return append(dst, '"')
}

// surt returns the sort key of any URL. If the URL has a host, the key is the one that pywb computes, also for schemes
// that no crawler requests (ftp:, whois:, metadata:). Any other URL (dns:, urn:, file:, a damaged URL) is its own key,
// as with pywb: in lower case, with blanks encoded, without an empty host (file:///x) and without the slash at its end.
func surt(url string) string {
	u, err := weburl.Parse(url)
	if errors.Is(err, weburl.ErrScheme) {
		scheme, rest, ok := strings.Cut(url, "://")
		switch {
		case !ok || !isScheme(scheme) || hasPrefixFold(url, "filedesc:"):
			// The host, if there is one, is that of another URL, such as in screenshot:http://example.org/.
		case strings.HasPrefix(rest, "/"):
			url = scheme + ":" + rest
		default:
			u, err = weburl.Parse("http://" + rest)
		}
	}
	if err == nil {
		return u.SURT()
	}
	return string(appendURI(nil, strings.TrimSuffix(strings.ToLower(url), "/")))
}

// isScheme reports whether s is the scheme of a URL (RFC 3986, 3.1).
func isScheme(s string) bool {
	for i, c := range []byte(strings.ToLower(s)) {
		if (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// line prepares the index line of the current response record.
func (g *group) line(x *Exchange, kind string, h httpHead, digest []byte) {
	g.cdx = g.cdx[:0]
	if len(x.URL) > maxIndexURL {
		return
	}
	l := Line{URL: lineURI(x.URL), MIME: h.MIME(), Status: h.Status}
	switch {
	case kind == "revisit":
		l.MIME, l.Status, l.Fetched = mimeRevisit, "", h.Status
		l.Duplicate = reference(lineURI(g.from.URL))
	case kind == "resource":
		l.MIME, l.Status = typeBytes, ""
	case h.Bare:
		l.MIME, l.Status = mimeOf(typeResponse), "200" // as pywb does
	case h.Status == "-":
		return // "-" means "not to be indexed"
	}
	if kind == "response" && message.IsType(x.PayloadType) {
		l.Detected = x.PayloadType
	}
	if digest != nil {
		var space [32]byte
		l.Digest = string(base32.StdEncoding.AppendEncode(space[:0], digest))
	}
	if x.Truncated != "" {
		l.Truncated = truncation(x.Truncated)
	}
	size := 0
	if g.coded {
		var space [37]byte
		field := appendDigest(space[:0], g.body[:])
		size = len(fieldBody) + len(": ") + len(field) + len("\r\n")
		l.Body = string(field[len("sha1:"):])
	}
	for _, f := range x.Metadata {
		if f.Name == "" {
			continue // the record lacks it
		}
		if size += len(f.Name) + len(": ") + len(f.Value) + len("\r\n"); size > maxTold {
			break
		}
		l.tell(f.Name, plain(f.Value))
	}
	l.show(x.URL, h)
	l.SURT, l.Time = surt(x.URL), string(g.stamp)
	g.cdx = l.appendFront(g.cdx)
}

const (
	time14      = "20060102150405"
	time17      = "20060102150405.000" // stamp17 removes the point
	mimeRevisit = "warc/revisit"
)

func stamp17(t time.Time) string {
	return strings.Replace(t.UTC().Format(time17), ".", "", 1)
}
