package report

import (
	"bufio"
	"encoding/base32"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// A Line is a line of crawl.log, with Heritrix's columns:
//
//	1  time          when the line was logged, UTC, 2006-01-02T15:04:05.000Z
//	2  code          HTTP status or a negative code, right-aligned to 5
//	3  size          bytes of the content, without the HTTP header, right-aligned
//	                 to 10; "-" if no response came
//	4  URI
//	5  path          discovery path in letters; "-" for a seed
//	6  via           URI of the page with the link; "-" for a seed
//	7  MIME type     "unknown" without one
//	8  thread        #001
//	9  start+took    20060102150405000+milliseconds; "-" if no request was sent
//	10 digest        sha1:BASE32 of the payload, or "-"
//	11 source tag    host of the seed, or "-"
//	12 annotations   comma-separated, or "-"
type Line struct {
	Time      time.Time
	Code      int
	Size      int64 // negative: no response
	URL       string
	Hops      string
	Via       string
	MIME      string
	Thread    int
	Began     time.Time // zero: no request was sent
	Took      time.Duration
	Digest    [20]byte // SHA-1
	HasDigest bool
	Seed      string
	Notes     []string
}

const (
	logTime   = "2006-01-02T15:04:05.000Z"
	startTime = "20060102150405.000" // written without the point
	// maxColumn is how many bytes of a column are kept, so that a URL of any length gives a line.
	maxColumn = 64 << 10
)

var digests = base32.StdEncoding

// AppendTo appends l and a newline to dst and returns the result. It percent-encodes characters that would break a
// column.
func (l *Line) AppendTo(dst []byte) []byte {
	dst = appendTime(dst, l.Time, true)
	dst = appendPadded(append(dst, ' '), int64(l.Code), 5)
	dst = append(dst, ' ')
	if l.Size < 0 {
		dst = append(dst, "         -"...)
	} else {
		dst = appendPadded(dst, l.Size, 10)
	}
	dst = appendColumn(append(dst, ' '), l.URL, "-")
	dst = appendColumn(append(dst, ' '), l.Hops, "-")
	dst = appendColumn(append(dst, ' '), l.Via, "-")
	dst = appendColumn(append(dst, ' '), l.MIME, "unknown")
	dst = append(dst, " #"...)
	for n := 100; n > 1 && l.Thread < n; n /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, int64(max(l.Thread, 0)), 10)
	dst = append(dst, ' ')
	if l.Began.IsZero() {
		dst = append(dst, '-')
	} else {
		dst = appendTime(dst, l.Began, false)
		dst = append(dst, '+')
		dst = strconv.AppendInt(dst, max(l.Took, 0).Milliseconds(), 10)
	}
	dst = append(dst, ' ')
	if l.HasDigest {
		dst = append(dst, "sha1:"...)
		dst = digests.AppendEncode(dst, l.Digest[:])
	} else {
		dst = append(dst, '-')
	}
	dst = appendColumn(append(dst, ' '), l.Seed, "-")
	dst = append(dst, ' ')
	start := len(dst)
	for _, n := range l.Notes {
		if n == "" {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = appendNote(dst, n)
	}
	if len(dst) == start {
		dst = append(dst, '-')
	}
	return append(dst, '\n')
}

// appendTime formats t with logTime if marks is set, else with startTime without its point. It takes a third of the
// time of AppendFormat, because each line has two times.
func appendTime(dst []byte, t time.Time, marks bool) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		if marks {
			return t.AppendFormat(dst, logTime)
		}
		dst = t.AppendFormat(dst, startTime)
		return append(dst[:len(dst)-4], dst[len(dst)-3:]...)
	}
	hour, minute, second := t.Clock()
	ms := t.Nanosecond() / 1e6
	b := [24]byte{
		digit(year / 1000), digit(year / 100), digit(year / 10), digit(year), '-',
		digit(int(month) / 10), digit(int(month)), '-', digit(day / 10), digit(day), 'T',
		digit(hour / 10), digit(hour), ':', digit(minute / 10), digit(minute), ':',
		digit(second / 10), digit(second), '.', digit(ms / 100), digit(ms / 10), digit(ms), 'Z',
	}
	if marks {
		return append(dst, b[:]...)
	}
	for _, p := range [...][2]int{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}, {17, 19}, {20, 23}} {
		dst = append(dst, b[p[0]:p[1]]...)
	}
	return dst
}

func digit(n int) byte { return '0' + byte(n%10) }

func appendPadded(dst []byte, n int64, width int) []byte {
	var b [20]byte
	s := strconv.AppendInt(b[:0], n, 10)
	for i := len(s); i < width; i++ {
		dst = append(dst, ' ')
	}
	return append(dst, s...)
}

func appendColumn(dst []byte, s, none string) []byte {
	if s == "" {
		return append(dst, none...)
	}
	return appendClean(dst, s, 0)
}

// appendNote also encodes commas, because a comma separates notes.
func appendNote(dst []byte, s string) []byte { return appendClean(dst, s, ',') }

// appendClean percent-encodes characters that would break a column or a terminal: white space, control characters (C0
// and C1), broken UTF-8, and the byte `also`. It cuts s to maxColumn bytes.
func appendClean(dst []byte, s string, also byte) []byte {
	cut := len(s) > maxColumn
	if cut {
		s = s[:maxColumn]
	}
	for i := 0; i < len(s); {
		from := i
		for i < len(s) && s[i] > ' ' && s[i] < 0x7f && s[i] != also {
			i++
		}
		dst = append(dst, s[from:i]...)
		if i == len(s) {
			break
		}
		c := s[i]
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, n = utf8.DecodeRuneInString(s[i:]); printable(r, n) {
				dst = append(dst, s[i:i+n]...)
				i += n
				continue
			}
		}
		for _, c := range []byte(s[i : i+n]) {
			dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
		i += n
	}
	if cut {
		dst = append(dst, "..."...)
	}
	return dst
}

// ErrLine means that a text is not a line of crawl.log.
var ErrLine = errors.New("not a crawl.log line")

// ReadLine parses a line of a crawl.log that this program or Heritrix wrote, with or without its newline. The error
// wraps ErrLine and names the column.
func ReadLine(s string) (Line, error) {
	var l Line
	s = strings.TrimRight(s, "\r\n")
	var col [12]string
	n := 0
	for ; n < len(col); n++ {
		s = strings.TrimLeft(s, " ")
		if s == "" {
			break
		}
		if n == len(col)-1 { // the annotations of Heritrix may contain spaces
			col[n], s = s, ""
			continue
		}
		col[n], s, _ = strings.Cut(s, " ")
	}
	if n < len(col)-1 { // Heritrix may leave the annotations out
		return l, fmt.Errorf("%w: it has %d columns, want at least %d", ErrLine, n, len(col)-1)
	}
	bad := func(i int) (Line, error) { return Line{}, fmt.Errorf("%w: column %d: %.60q", ErrLine, i+1, col[i]) }
	none := func(s string) string {
		if s == "-" {
			return ""
		}
		return s
	}
	var err error
	if l.Time, err = time.Parse(logTime, col[0]); err != nil {
		return bad(0)
	}
	if l.Code, err = strconv.Atoi(col[1]); err != nil {
		return bad(1)
	}
	if l.Size = -1; col[2] != "-" {
		if l.Size, err = strconv.ParseInt(col[2], 10, 64); err != nil || l.Size < 0 {
			return bad(2)
		}
	}
	l.URL, l.Hops, l.Via = none(col[3]), none(col[4]), none(col[5])
	if l.MIME = col[6]; l.MIME == "unknown" || l.MIME == "-" {
		l.MIME = ""
	}
	thread, ok := strings.CutPrefix(col[7], "#")
	if l.Thread, err = strconv.Atoi(thread); !ok || err != nil || l.Thread < 0 {
		return bad(7)
	}
	if col[8] != "-" {
		began, took, ok := strings.Cut(col[8], "+")
		if !ok || len(began) != 17 {
			return bad(8)
		}
		if l.Began, err = time.Parse(startTime, began[:14]+"."+began[14:]); err != nil {
			return bad(8)
		}
		ms, err := strconv.ParseInt(took, 10, 64)
		if err != nil || ms < 0 || ms > int64(1<<63-1)/int64(time.Millisecond) {
			return bad(8)
		}
		l.Took = time.Duration(ms) * time.Millisecond
	}
	if col[9] != "-" {
		d, ok := strings.CutPrefix(col[9], "sha1:")
		raw, err := digests.DecodeString(d)
		if !ok || err != nil || len(raw) != len(l.Digest) {
			return bad(9)
		}
		copy(l.Digest[:], raw)
		l.HasDigest = true
	}
	l.Seed = none(col[10])
	if a := none(col[11]); a != "" {
		l.Notes = strings.Split(a, ",")
	}
	return l, nil
}

// unsynced is more than a log writes between two syncs, in bytes.
const unsynced = 8 << 20

// Log is crawl.log and crawl.jsonl. Its methods are safe for concurrent use.
type Log struct{ *lines.File }

// OpenLog opens a crawl.log for appending, and crawl.jsonl beside it, which has each line as a JSON object. It creates
// the files and their directory if needed, and removes an incomplete last line. Then crawl.jsonl has the lines that
// crawl.log has, whatever it had before. The caller must Close the Log.
func OpenLog(fs disk.FS, name string) (*Log, error) {
	a, err := lines.OpenWithCopy(fs, name, unsynced, strings.TrimSuffix(name, ".log")+".jsonl", objects{})
	if err != nil {
		return nil, err
	}
	return &Log{a}, nil
}

// Write adds a line to the buffers of both files. Flush returns the error if the line cannot be written.
func (l *Log) Write(line Line) { l.Add(line.AppendTo) }

// A Tail knows the last lines of a crawl.log.
type Tail struct {
	seed  maphash.Seed
	lines map[uint64]struct{}
}

// Tail reads the last lines of the log, at least as many as are written between two syncs. Call it before Write.
func (l *Log) Tail() (*Tail, error) {
	t := &Tail{seed: maphash.MakeSeed(), lines: map[uint64]struct{}{}}
	tail, whole := l.File.Tail()
	r := bufio.NewReaderSize(tail, 64<<10)
	for cut := !whole; ; cut = false { // the first line is incomplete
		s, err := r.ReadString('\n')
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("log %s: %w", l.Name(), err)
		}
		if line, err := ReadLine(s); err == nil && !cut {
			t.lines[t.key([]byte(line.URL), line.Code, line.Began)] = struct{}{}
		}
	}
}

// Empty reports that the log has no lines.
func (t *Tail) Empty() bool { return len(t.lines) == 0 }

// Has reports whether one of the lines is about this visit. began may be more exact than the line.
func (t *Tail) Has(url string, code int, began time.Time) bool {
	_, ok := t.lines[t.key(appendColumn(nil, url, "-"), code, began)]
	return ok
}

// key returns the hash of what identifies a visit. It may change url.
func (t *Tail) key(url []byte, code int, began time.Time) uint64 {
	b := strconv.AppendInt(append(url, ' '), int64(code), 10)
	if !began.IsZero() {
		b = appendTime(append(b, ' '), began, false)
	}
	return maphash.Bytes(t.seed, b)
}

// RefetchNote begins the note of a visit that fetches the page of a lost archive again. The number of the attempt to
// replace the page follows.
const RefetchNote = "refetch:"
