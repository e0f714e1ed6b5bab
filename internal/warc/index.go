package warc

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"io"
	"strings"
	"time"
)

// maxHTTPHead is how many bytes of a record are searched for the end of its HTTP header.
const maxHTTPHead = 1 << 20

// Index calls emit with the CDXJ line of every capture in the WARC file r, in the order of the file. The line is valid
// until emit returns. name becomes the "filename" of the lines. The selection of records and the content of the lines
// follow pywb's `cdx-indexer -j`, except for the media type of several Content-Type values, and for the keys that pywb
// does not write: all records but warcinfo, request and warc-fields metadata. Records that share a gzip member get no
// line, because a reader cannot start at their offset. Index continues behind damage. It returns the first error of
// emit, or of reading r, or at the end Flaws.
func Index(r io.Reader, name string, emit func(line []byte) error) error {
	return indexFrom(r, 0, name, nil, emit)
}

// indexFrom is IndexWith for the rest of a file, in which a record begins at the offset of r. Without a Looker it is
// Index.
func indexFrom(r io.Reader, offset int64, name string, with Looker, emit func(line []byte) error) error {
	var flaws Flaws
	left := leftOut{}
	rd := flaws.reader(r, offset)
	m := lineMaker{name: name}
	var seen looked
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			if err := m.flush(emit); err != nil {
				return err
			}
			left.to(&flaws)
			return flaws.err()
		}
		if err != nil {
			return err
		}
		if with != nil {
			if err := seen.look(rec, with); err != nil {
				return err
			}
		}
		ok, err := m.read(rd, rec, emit)
		switch {
		case errors.Is(err, ErrDamaged):
			continue // Next notes it
		case err != nil:
			return err
		case !ok:
			left.add(rec)
		}
		if with != nil {
			with.Passed(rec)
		}
	}
}

// lineOf reads as much of a record's content as its index line needs. The returned line has no length yet. ok is false
// if the record is not indexed.
func lineOf(rec *Record, name string) (l Line, ok bool, err error) {
	kind := rec.Type()
	url := rec.URL()
	switch {
	case kind == "warcinfo" || kind == "request" || url == "" || len(url) > maxIndexURL:
		return l, false, nil
	case rec.Header.Value("Content-Type") == typeFields:
		return l, false, nil
	}
	date, ok := dateOf(rec.Date())
	if !ok {
		return l, false, nil
	}
	url = strings.ReplaceAll(url, " ", "%20")
	l = Line{SURT: surt(url), Time: date.Format(time14), URL: url, Offset: rec.Offset, File: name}
	l.Detected = rec.Header.Value(fieldIdentified)
	l.Digest = payloadDigest(rec)

	h, rest, err := headOf(rec, kind, url)
	if err != nil {
		return l, false, err
	}
	switch {
	case kind == "revisit":
		l.MIME, l.Detected = mimeRevisit, ""
		if !h.Bare {
			l.Fetched = h.Status
		}
		l.Duplicate = reference(strings.TrimSpace(rec.Header.Value("WARC-Refers-To-Target-URI")))
	case kind == "metadata" && h.MIME() == "text/anvl":
		return l, false, nil
	default:
		l.MIME = h.MIME()
		if kind == "response" {
			l.Status = h.Status
		}
	}
	if h.Status == "-" {
		return l, false, nil
	}
	l.Truncated = strings.TrimSpace(rec.Header.Value("WARC-Truncated"))
	l.show(url, h)
	if l.Digest == "" && kind != "revisit" {
		sum := sha1.New()
		sum.Write(rest)
		if _, err := io.Copy(sum, rec); err != nil {
			return l, false, err
		}
		l.Digest = string(appendDigest(nil, sum.Sum(nil)))[len("sha1:"):]
	}
	return l, true, nil
}

// headOf reads the HTTP header of a record that has one. For other records it returns a substitute with status 200 and
// the record's own type. rest is the part of the payload that was read along with the header.
func headOf(rec *Record, kind, url string) (h httpHead, rest []byte, err error) {
	none := httpHead{Status: "200", Type: rec.Header.Value("Content-Type"), Bare: true}
	if !hasHTTP(kind, url) || rec.Size == 0 {
		return none, nil, nil
	}
	head, rest, err := readHead(rec)
	if err != nil {
		return h, nil, err
	}
	if h = parseHead(head); h.Bare {
		return none, rest, nil
	}
	return h, rest, nil
}

func hasHTTP(kind, url string) bool {
	return (kind == "response" || kind == "revisit" || kind == "request") &&
		(hasPrefixFold(url, "http:") || hasPrefixFold(url, "https:"))
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// readHead reads the HTTP header at the front of rec's content. rest is the part of the payload that was read with it.
func readHead(rec *Record) (head, rest []byte, err error) {
	head, rest, _, err = readHeadFrom(rec)
	return head, rest, err
}

// readHeadFrom reads up to and including the first blank line (see blank). If there is none within maxHTTPHead bytes,
// found is false and head is everything that was read.
func readHeadFrom(r io.Reader) (head, rest []byte, found bool, err error) {
	buf := make([]byte, 0, 4096)
	line := 0 // where the current, unfinished line begins
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		scanned := len(buf)
		buf = buf[:len(buf)+n]
		if err != nil && err != io.EOF {
			return nil, nil, false, err
		}
		for {
			i := bytes.IndexByte(buf[max(line, scanned):], '\n')
			if i < 0 {
				break
			}
			end := max(line, scanned) + i + 1
			if blank(buf[line:end]) {
				return buf[:end], buf[end:], true, nil
			}
			line = end
		}
		if err == io.EOF || len(buf) >= maxHTTPHead {
			return buf, nil, false, nil
		}
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, len(buf))...)[:len(buf)]
		}
	}
}

// dateOf parses a WARC-Date: W3C format with or without a fraction, or the 14 digits of WARC/0.17. As pywb's indexer
// does, it also reads lower case, a zone like +0000, a blank or underscore between date and time, slashes in the date,
// and numbers of one digit.
func dateOf(s string) (time.Time, bool) {
	if t, ok := w3cDate(s); ok {
		return t, true
	}
	s = strings.NewReplacer(" ", "T", "_", "T", "/", "-").Replace(strings.ToUpper(s))
	for _, layout := range [...]string{
		"2006-1-2T15:4:5Z07:00", "2006-1-2T15:4:5Z0700", "2006-1-2T15:4:5", "2006-1-2",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// w3cDate parses a WARC-Date of the standards: W3C format, or the 14 digits of WARC/0.17.
func w3cDate(s string) (time.Time, bool) {
	for _, layout := range [...]string{
		time.RFC3339, time14, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02", "2006-01", "2006",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
