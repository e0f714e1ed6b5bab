package warc

import (
	"bytes"
	"crypto/sha1"
	"io"
	"strings"
	"time"
)

// maxHTTPHead is how much of a record is searched for the end of its HTTP
// header.
const maxHTTPHead = 1 << 20

// Index calls emit with the CDXJ line of every capture in the WARC file r, in
// the file's order; line is valid until emit returns. name goes into the
// lines' filename. Which records get a line, and what is in it, is as with
// pywb's cdx-indexer -j: all but warcinfo, request and warc-fields metadata.
// Records that share a gzip member get none, for
// they cannot be read from their offset.
func Index(r io.Reader, name string, emit func(line []byte) error) error {
	rd := NewReader(r)
	var buf []byte
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		l, ok, err := lineOf(rec, name)
		if err != nil {
			return err
		}
		if err := rd.Finish(); err != nil {
			return err
		}
		if !ok || rec.Shared {
			continue
		}
		l.Length = rec.Length
		buf = l.AppendTo(buf[:0])
		if err := emit(buf); err != nil {
			return err
		}
	}
}

// lineOf reads a record's content as far as its index line needs; the line
// lacks the length. ok is false for a record that is not indexed.
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
	l.Detected = rec.Header.Value("WARC-Identified-Payload-Type")
	l.Digest = payloadDigest(rec)

	h, rest, err := headOf(rec, kind, url)
	if err != nil {
		return l, false, err
	}
	switch {
	case kind == "revisit":
		l.MIME, l.Detected = mimeRevisit, ""
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

// headOf reads the HTTP header of a record that has one, and stands in one
// that says 200 and the record's own type for others. rest is what was read
// of the payload.
func headOf(rec *Record, kind, url string) (h httpHead, rest []byte, err error) {
	none := httpHead{Status: "200", Type: rec.Header.Value("Content-Type")}
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

// readHead reads the HTTP header in front of rec's content, and what came
// with it of the payload.
func readHead(rec *Record) (head, rest []byte, err error) {
	head, rest, _, err = readHeadFrom(rec)
	return head, rest, err
}

// readHeadFrom reads up to the first line without anything visible. Where
// none comes within maxHTTPHead, all of what was read is the header.
func readHeadFrom(r io.Reader) (head, rest []byte, found bool, err error) {
	buf := make([]byte, 0, 4096)
	line := 0 // where the line begins that has not ended yet
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

// dateOf reads a WARC-Date (W3C, with or without fraction) or, as WARC/0.17
// has it, 14 digits.
func dateOf(s string) (time.Time, bool) {
	for _, layout := range [...]string{time.RFC3339, time14, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02", "2006-01", "2006"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
