package warc

import (
	"encoding/base32"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// maxIndexURL is the longest URL that gets an index line: pywb holds lines in
// memory, and so do we when we sort.
const maxIndexURL = 256 << 10

// A Line is one line of a CDXJ index: one capture.
type Line struct {
	SURT     string
	Time     string // 14 digits
	URL      string
	MIME     string // "warc/revisit" for a revisit; "" is left out, as is every empty field
	Detected string // WARC-Identified-Payload-Type
	Status   string
	Digest   string // base32, without "sha1:"
	Length   int64  // of the gzip member or plain record
	Offset   int64
	File     string
}

// AppendTo appends the line with its line feed, spelled as pywb spells it.
func (l Line) AppendTo(dst []byte) []byte {
	dst = l.appendFront(dst)
	return appendPlace(dst, l.Length, l.Offset, l.File)
}

// appendFront appends what is known of a record before its place is.
func (l *Line) appendFront(dst []byte) []byte {
	dst = append(dst, l.SURT...)
	dst = append(dst, ' ')
	dst = append(dst, l.Time...)
	return appendCapture(dst, l.URL, l.MIME, l.Detected, l.Status, l.Digest)
}

// maxIndexField bounds a field of a line but for its URL, in bytes: pywb reads
// lines into memory, and servers choose what stands in their headers.
const maxIndexField = 255

// appendCapture appends the object up to the record's place. Fields that are
// empty or too long are left out.
func appendCapture(dst []byte, url, mime, detected, status, digest string) []byte {
	dst = append(dst, ` {"url": `...)
	dst = appendJSON(dst, url)
	for _, f := range [...]Field{{"mime", mime}, {"mime-detected", detected}, {"status", status}, {"digest", digest}} {
		if f.Value == "" || f.Value == "-" || len(f.Value) > maxIndexField {
			continue
		}
		dst = append(dst, `, "`...)
		dst = append(dst, f.Name...)
		dst = append(dst, `": `...)
		dst = appendJSON(dst, f.Value)
	}
	return dst
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

// appendJSON quotes s in ASCII. Bytes that are no UTF-8 are taken for Latin-1,
// as warcio takes them.
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

// surt is the sort key of any URL: as pywb has it for URLs with a host, also
// of schemes that no crawler asks for (ftp:, whois:, metadata:). What cannot
// be read so (dns:, urn:, file:, a damaged URL) is its own key, lower case,
// without blanks; for file: pywb merges slashes.
func surt(url string) string {
	u, err := weburl.Parse(url)
	if errors.Is(err, weburl.ErrScheme) {
		if i := strings.Index(url, "://"); i > 0 && !hasPrefixFold(url, "filedesc:") {
			u, err = weburl.Parse("http" + url[i:])
		}
	}
	if err == nil {
		return u.SURT()
	}
	return string(appendURI(nil, strings.ToLower(url)))
}

// line prepares the index line of the response record in hand.
func (g *group) line(x *Exchange, kind string, h httpHead, digest []byte) {
	g.cdx = g.cdx[:0]
	if len(x.URL) > maxIndexURL {
		return
	}
	mime, status := h.MIME(), h.Status
	switch {
	case kind == "revisit":
		mime, status = mimeRevisit, ""
	case kind == "resource":
		mime, status = typeBytes, ""
	case h.Bare:
		mime, status = mimeOf(typeResponse), "200" // as pywb has it
	case status == "-":
		return // which means "not to be indexed"
	}
	var sum []byte
	if digest != nil {
		var space [32]byte
		sum = base32.StdEncoding.AppendEncode(space[:0], digest)
	}
	b := append(g.cdx, surt(x.URL)...)
	b = append(b, ' ')
	b = append(b, g.stamp...)
	g.cdx = appendCapture(b, lineURI(x.URL), mime, "", status, string(sum))
}

const (
	time14      = "20060102150405"
	time17      = "20060102150405.000" // the point is taken out
	mimeRevisit = "warc/revisit"
)

func stamp17(t time.Time) string {
	return strings.Replace(t.UTC().Format(time17), ".", "", 1)
}
