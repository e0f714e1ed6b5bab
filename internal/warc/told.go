package warc

import (
	"bytes"
	"crypto/sha1"
	"io"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An index line has keys that pywb does not write. The index of Common Crawl has charset, languages, truncated and
// redirect. The keys hops, via, fetched-status, duplicate-of, near-duplicate-of, category and body-digest are our own.
// The record tells truncated, redirect, fetched-status and duplicate-of. The metadata record of its exchange tells the
// others, in the fields below; it follows the record. So a scan of a WARC file writes the lines that the Writer writes.

// The fields of a metadata record from which an index line takes keys. Heritrix has the names of the first, third and
// fourth one.
const (
	FieldCharset   = "charsetForLinkExtraction"
	FieldLanguages = "languages"
	FieldHops      = "hopsFromSeed"
	FieldVia       = "via"
	FieldNear      = "nearDuplicateOf"
	FieldCategory  = "category"
	// fieldBody is the SHA-1 of a body without chunk sizes, if the response is stored with them. The Writer adds it.
	fieldBody = "bodyDigest"
)

// maxRedirect is the longest URL other than its own, in bytes, that an index line has. It also bounds the path.
const maxRedirect = 2 << 10

// tell sets what a field of the metadata record says.
func (l *Line) tell(name, value string) {
	switch name {
	case FieldCharset:
		l.Charset = message.CharsetName(value)
	case FieldLanguages:
		if message.IsLanguages(value) {
			l.Languages = value
		}
	case FieldHops:
		l.Hops = visibleOnly(value)
	case FieldVia:
		l.Via = visibleOnly(value)
	case FieldNear:
		l.Near = visibleOnly(value)
	case FieldCategory:
		l.Category = value
	case fieldBody:
		if sum, ok := strings.CutPrefix(value, "sha1:"); ok && decodeDigest(sum, sha1.Size) != nil {
			l.Body = sum
		}
	}
}

// visibleOnly returns value, or nothing if a byte of it is not visible ASCII. URLs and paths have no other bytes.
func visibleOnly(value string) string {
	for i := range len(value) {
		if value[i] <= ' ' || value[i] >= 0x7f {
			return ""
		}
	}
	return value
}

// plain returns the value of a field as a reader of the metadata record has it (see appendFields).
func plain(value string) string {
	if visibleOnly(value) == value {
		return value
	}
	b := []byte(value)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = ' '
		}
	}
	return string(bytes.TrimSpace(b))
}

// reference returns the URL of a field that may have angle brackets around it.
func reference(value string) string { return visibleOnly(strings.Trim(value, "<>")) }

// show sets what the HTTP header of the record at url says. A metadata record that tells the charset counts more.
func (l *Line) show(url string, h httpHead) {
	if h.Location != "" {
		if u, err := weburl.Parse(url); err == nil {
			if to, err := u.Resolve(h.Location); err == nil && len(to.String()) <= maxRedirect {
				l.Redirect = lineURI(to.String())
			}
		}
	}
	if i := strings.IndexByte(h.Type, ';'); i >= 0 && l.Charset == "" {
		t, _ := message.Header{{Name: "Content-Type", Value: h.Type}}.Type()
		l.Charset = message.CharsetName(t.Charset)
	}
}

// A lineMaker makes the index lines of the records of a file. It holds back the line of a record until the metadata
// record of the same exchange has been read, or another capture begins.
type lineMaker struct {
	name string // of the WARC file, without directory
	// whole makes it damage if a record is not alone in its gzip member, or lacks the empty lines at its end.
	whole bool

	held Line
	id   string // WARC-Record-ID of the held line
	has  bool   // there is a held line
	buf  []byte
}

// read reads a record to its end, and passes the held line to emit if another one takes its place. ok reports whether
// the record gets a line. After an error that wraps ErrDamaged the lineMaker may go on.
func (m *lineMaker) read(rd *Reader, rec *Record, emit func(line []byte) error) (ok bool, err error) {
	l, about := m.held, m.tells(rec)
	if about {
		err = l.told(rec)
	} else {
		l, ok, err = lineOf(rec, m.name)
	}
	if err == nil {
		err = rd.Finish()
	}
	switch {
	case err != nil:
		return false, err
	case m.whole && (rec.Shared || string(rec.tail) != recordEnd):
		return false, &DamageError{rec.Offset, "the record lacks the two empty lines at its end"}
	case about:
		m.held = l
		return false, nil
	case !ok || rec.Shared:
		return false, nil
	}
	err = m.flush(emit)
	l.Length = rec.Length
	m.held, m.id, m.has = l, strings.TrimSpace(rec.Header.Value("WARC-Record-ID")), true
	return true, err
}

// tells reports whether rec is the metadata record of the held line.
func (m *lineMaker) tells(rec *Record) bool {
	return m.has && m.id != "" && rec.Type() == "metadata" && rec.Header.Value("Content-Type") == typeFields &&
		strings.TrimSpace(rec.Header.Value("WARC-Concurrent-To")) == m.id
}

// flush passes the held line to emit.
func (m *lineMaker) flush(emit func(line []byte) error) error {
	if !m.has {
		return nil
	}
	m.has = false
	m.buf = m.held.AppendTo(m.buf[:0])
	return emit(m.buf)
}

// maxTold is how many bytes of a metadata record are read.
const maxTold = 64 << 10

// told sets what a metadata record says.
func (l *Line) told(rec *Record) error { return rec.EachField(l.tell) }

// EachField calls fn with the fields of a record of the type application/warc-fields, in their order. It reads its
// first 64 KiB: those of a long list of links come last. An error says that a part of these cannot be read.
func (rec *Record) EachField(fn func(name, value string)) error {
	b, err := io.ReadAll(io.LimitReader(rec, maxTold))
	b = b[:bytes.LastIndexByte(b, '\n')+1] // the limit may cut a line
	for line := range bytes.Lines(b) {
		if name, value, ok := bytes.Cut(line, []byte{':'}); ok {
			fn(string(name), string(bytes.TrimSpace(value)))
		}
	}
	return err
}
