package earlier

import (
	"bytes"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/fixed"
	"github.com/orbweaver/orbweaver/internal/warc"
)

const (
	maxURL = 4 << 10 // bytes of a URL
	// maxLine is the longest line, in bytes. An index line of this program has a URL and some 600 bytes.
	maxLine = 64 << 10

	kindOurs  = 1 // the digest is that of the payload as stored, with chunk sizes
	kindCoded = 2 // the digest is that of the body, which is stored with chunk sizes
	kindOther = 3
	valueHead = 1 + 5
)

// The reasons why a line is not usable.
var (
	errRevisit = errors.New("a revisit record")
	errOther   = errors.New("no response")
)

// An entry is what the table has of a response.
type entry struct {
	digest fixed.Key
	stored fixed.Key // kindCoded: the digest of the payload as stored
	kind   byte
	date   time.Time
	url    string
}

// appendTo appends the entry as it is sorted.
func (e *entry) appendTo(b []byte) []byte {
	var date [8]byte
	binary.BigEndian.PutUint64(date[:], uint64(e.date.Unix()))
	b = append(append(b, e.digest[:]...), e.kind)
	if b = append(b, date[3:]...); e.kind == kindCoded {
		b = append(b, e.stored[:]...)
	}
	return append(b, e.url...)
}

// setValue reads a value of the table.
func (e *entry) setValue(b []byte) bool {
	if len(b) <= valueHead {
		return false
	}
	var date [8]byte
	copy(date[3:], b[1:valueHead])
	e.kind, b = b[0], b[valueHead:]
	if e.kind == kindCoded {
		if len(b) <= len(e.stored) {
			return false
		}
		e.stored, b = fixed.Key(b), b[len(e.stored):]
	}
	e.url = string(b)
	e.date = time.Unix(int64(binary.BigEndian.Uint64(date[:])), 0).UTC()
	return true
}

// fields are those of a line that count. Some programs write the status as a number.
type fields struct {
	URL, MIME, Digest, Filename string

	Status, Truncated json.RawMessage

	Body string `json:"body-digest"`
}

// parse reads a line. An error other than errRevisit and errOther says what is wrong with it.
func (e *entry) parse(line []byte, ours bool) error {
	_, rest, ok := bytes.Cut(line, []byte{' '})
	stamp, object, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok || !ok2 {
		return errors.New("not a sort key, a time and an object")
	}
	var f fields
	if err := json.Unmarshal(object, &f); err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	status := strings.Trim(string(f.Status), `"`)
	switch {
	case f.MIME == "warc/revisit":
		return errRevisit
	case !strings.HasPrefix(f.URL, "http://") && !strings.HasPrefix(f.URL, "https://"),
		len(status) != 3 || status[0] < '1' || status[0] > '9', !absent(f.Truncated):
		return errOther
	case f.Digest == "" || len(f.URL) > maxURL:
		return errOther
	}
	var err error
	if e.date, err = time.Parse("20060102150405", string(stamp)); err != nil || e.date.Unix() < 0 {
		return fmt.Errorf("time %.20q: not 14 digits of a date", stamp)
	}
	if e.digest, ok = sha1Of(f.Digest); !ok {
		return fmt.Errorf("digest %.60q: not a SHA-1 in base32 or hexadecimal", f.Digest)
	}
	if e.url, e.kind = f.URL, kindOther; ours && warc.IsFileName(f.Filename) {
		e.kind = kindOurs
		if body, ok := sha1Of(f.Body); ok {
			e.kind, e.digest, e.stored = kindCoded, body, e.digest
		}
	}
	return nil
}

func absent(v json.RawMessage) bool { return len(v) == 0 || string(v) == `""` || string(v) == "null" }

// sha1Of decodes a digest, with or without its label.
func sha1Of(s string) (d fixed.Key, ok bool) {
	if label, value, found := strings.Cut(s, ":"); found {
		if !strings.EqualFold(label, "sha1") && !strings.EqualFold(label, "sha-1") {
			return d, false
		}
		s = value
	}
	var b []byte
	var err error
	switch len(s) {
	case 32:
		b, err = base32.StdEncoding.DecodeString(strings.ToUpper(s))
	case 40:
		b, err = hex.DecodeString(s)
	}
	if err != nil || len(b) != len(d) {
		return d, false
	}
	return fixed.Key(b), true
}
