package warc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Reference describes the original of a revisit record, which is the record that holds the payload (ISO 28500,
// 6.7). A field that the revisit record lacks is empty.
type Reference struct {
	URL    string
	Date   string // 14 digits
	Digest string // without "sha1:"
	// Revisited is the date of the revisit record itself, 14 digits.
	Revisited string
}

// Reference reads the header of a revisit record. If the record names no URL, it refers to an earlier capture of its
// own URL.
func (rec *Record) Reference() Reference {
	r := Reference{
		URL:       strings.Trim(strings.TrimSpace(rec.Header.Value("WARC-Refers-To-Target-URI")), "<>"),
		Date:      digits14(rec.Header.Value("WARC-Refers-To-Date")),
		Digest:    payloadDigest(rec),
		Revisited: digits14(rec.Date()),
	}
	if r.URL == "" {
		r.URL = rec.URL()
	}
	return r
}

// Original returns the Original of later captures with the same payload: this record, or the one to which this revisit
// record refers. ok is false if the record does not say which it is.
func (rec *Record) Original() (o Original, ok bool) {
	date, id := rec.Date(), rec.Header.Value("WARC-Record-ID")
	o.URL = rec.URL()
	if rec.Type() == "revisit" {
		o.URL = rec.Reference().URL
		date, id = rec.Header.Value("WARC-Refers-To-Date"), rec.Header.Value("WARC-Refers-To")
	}
	at, ok := dateOf(strings.TrimSpace(date))
	if !ok || o.URL == "" {
		return Original{}, false
	}
	o.Date = at
	text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(id), "<urn:uuid:"), ">")
	if b, err := hex.DecodeString(strings.ReplaceAll(text, "-", "")); err == nil && len(b) == len(o.ID) {
		o.ID = [16]byte(b)
	}
	return o, true
}

// payloadDigest returns the record's payload digest as an index spells it: without the label "sha1:", in any case.
func payloadDigest(rec *Record) string {
	s := strings.TrimSpace(rec.Header.Value("WARC-Payload-Digest"))
	if label, value, ok := strings.Cut(s, ":"); ok && strings.EqualFold(label, "sha1") {
		return value
	}
	return s
}

// digits14 converts a WARC-Date to the 14 digits of an index; "" if it cannot be parsed.
func digits14(date string) string {
	t, ok := dateOf(strings.TrimSpace(date))
	if !ok {
		return ""
	}
	return t.Format(time14)
}

// match rates how well a capture of the reference's URL fits: 0 not at all, 3 exactly. A capture with another payload
// never fits. Two digests that cannot be compared tell nothing. If the reference has neither digest nor date, any
// capture up to the revisit's date fits with 1.
func (r Reference) match(l *Line) int {
	same, known := sameDigest(r.Digest, l.Digest)
	switch {
	case l.MIME == mimeRevisit, known && !same:
		return 0
	case r.Date != "" && r.Date == l.Time:
		return 3
	case same:
		return 2
	case r.Date == "" && r.Digest == "" && l.Time <= r.Revisited:
		return 1
	}
	return 0
}

// sameDigest compares two payload digests as an index has them. known is false if they do not tell whether the
// payloads are the same: one is missing, cannot be decoded, or is of another algorithm.
func sameDigest(a, b string) (same, known bool) {
	if a == "" || b == "" {
		return false, false
	}
	if strings.EqualFold(a, b) {
		return true, true
	}
	x, y := indexDigest(a), indexDigest(b)
	if x == nil || y == nil || x.name != y.name {
		return false, false
	}
	return bytes.Equal(x.want, y.want), true
}

// indexDigest parses a payload digest as an index has it: without a label it is a SHA-1. It returns nil if the value
// cannot be decoded.
func indexDigest(s string) *digest {
	if !strings.Contains(s, ":") {
		s = "sha1:" + s
	}
	d, ok := parseDigest(s)
	if !ok || d.want == nil {
		return nil
	}
	return d
}

// best returns the capture with the highest match, the last of equal ones; nil if none matches.
func (r Reference) best(captures []Line) *Line {
	var found *Line
	for i := range captures {
		if m := r.match(&captures[i]); m > 0 && (found == nil || m >= r.match(found)) {
			found = &captures[i]
		}
	}
	return found
}

// ErrNoOriginal means that none of the searched archives holds the original of a revisit.
var ErrNoOriginal = errors.New("the original of the revisit is not in the archive")

// OpenOriginal looks up the original of a revisit in the indexes of the crawl directories places, in that order, and
// opens its record. The caller must close the file after reading the record. If no directory has the original, the
// error wraps ErrNoOriginal; if those that have it cannot be read, it is an UnreadableError. A nil fsys means the
// machine's filesystem.
func OpenOriginal(fsys disk.FS, places []Place, ref Reference) (*Record, disk.File, error) {
	missing := fmt.Errorf("%w: %s", ErrNoOriginal, ref)
	for _, p := range places {
		captures, err := Lookup(fsys, p, ref.URL)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the crawl has no capture yet
		}
		if err != nil {
			return nil, nil, err
		}
		l := ref.best(captures)
		if l == nil {
			continue
		}
		rec, f, err := OpenRecord(fsys, p.Dir, *l)
		if err == nil {
			return rec, f, nil
		}
		if _, ok := errors.AsType[*UnreadableError](err); !ok {
			return nil, nil, err
		}
		missing = err // another directory may have the same content
	}
	return nil, nil, missing
}

// FindOriginal finds the original of a revisit by reading a whole WARC file, without an index. If the file does not
// have it, the error wraps ErrNoOriginal. Damaged places are passed over.
func FindOriginal(r io.ReadSeeker, ref Reference) (*Record, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var captures []Line
	key := surt(ref.URL)
	err := Index(r, "", func(line []byte) error {
		l, err := ParseLine(line)
		if err == nil && l.SURT == key && ref.match(&l) > 0 {
			captures = []Line{*ref.best(append(captures, l))}
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	l := ref.best(captures)
	if l == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoOriginal, ref)
	}
	return At(r, l.Offset)
}

// String describes the original for a message: its URL, date and digest.
func (r Reference) String() string {
	s := r.URL
	if t, err := time.Parse(time14, r.Date); err == nil {
		s += ", captured " + t.Format(time.RFC3339)
	}
	switch {
	case strings.Contains(r.Digest, ":"): // another algorithm, with its label
		s += ", " + r.Digest
	case r.Digest != "":
		s += ", sha1:" + r.Digest
	}
	return s
}
