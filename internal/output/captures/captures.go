package captures

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An Archive reads the archives of crawl directories.
type Archive struct {
	fs        disk.FS
	places    []warc.Place
	originals []warc.Place
}

// New returns the archive of the crawl directories places. The originals of revisit records are also
// looked for in the crawl directories originals. A nil fsys means the machine's filesystem.
func New(fsys disk.FS, places, originals []warc.Place) *Archive {
	return &Archive{warc.Remember(cmp.Or(fsys, disk.OS)), places, originals}
}

// Empty reports whether the archive has no capture of a web page.
func (a *Archive) Empty(ctx context.Context) (bool, error) {
	_, next, err := a.Hosts(ctx, "", 0)
	return next == "", err
}

// A Capture is one capture of a URL.
type Capture struct {
	warc.Line
	in warc.Place
}

// Type returns the media type that the index has of the capture, in lower case. It is empty if the body decides, and
// for a revisit: then Message.Type tells.
func (c Capture) Type() message.Type {
	if c.Revisit() {
		return message.Type{}
	}
	t, _ := message.Header{{Name: "Content-Type", Value: c.MIME}}.Type()
	return t
}

// Revisit reports whether the record has no body of its own.
func (c Capture) Revisit() bool { return c.MIME == "warc/revisit" }

// ErrNoIndex means that a crawl directory has no index.
var ErrNoIndex = errors.New("no index")

// TimeFormat is the form of the times in an index, in UTC.
const TimeFormat = "20060102150405"

// Captures returns the captures of u, oldest first. Sort keys are compared, so captures of similar
// URLs are among them: with another scheme, with or without "www.". An error that wraps ErrNoIndex
// names the directory.
func (a *Archive) Captures(u string) ([]Capture, error) {
	var all []Capture
	for _, p := range a.places {
		lines, err := warc.Lookup(a.fs, p, u)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", p.Dir, ErrNoIndex)
		}
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			all = append(all, Capture{l, p})
		}
	}
	slices.SortStableFunc(all, func(a, b Capture) int { return cmp.Compare(a.Time, b.Time) })
	return all, nil
}

// Exact returns the captures of exactly u among all. If there are none, it returns those of similar
// URLs that are not redirects, because these mostly lead to u itself.
func Exact(all []Capture, u weburl.URL) (captures []Capture) {
	for _, c := range all {
		if c.Is(u) {
			captures = append(captures, c)
		}
	}
	if len(captures) > 0 {
		return captures
	}
	for _, c := range all {
		if !strings.HasPrefix(c.Status, "3") {
			captures = append(captures, c)
		}
	}
	return captures
}

// Is reports whether c is a capture of exactly u.
func (c Capture) Is(u weburl.URL) bool {
	if c.URL == u.String() {
		return true
	}
	v, err := weburl.Parse(c.URL)
	return err == nil && v == u
}

// Nearest returns the capture of u that is nearest to the time at. ok is false if there is none.
func (a *Archive) Nearest(u weburl.URL, at time.Time) (c Capture, ok bool, err error) {
	all, err := a.Captures(u.String())
	if err != nil {
		return c, false, err
	}
	c, ok = Nearest(Exact(all, u), at)
	return c, ok, nil
}

// At returns the capture that an index line of the first crawl directory names by its file and offset.
func (a *Archive) At(l warc.Line) Capture { return Capture{l, a.places[0]} }

// cameBack is how many seconds after a redirect its URL was fetched again if the redirect led back to it.
const cameBack = 600

// Nearest returns the capture that is nearest to a time, the last one of equally near ones. ok is false if there is
// none. A redirect gives way to a page that was fetched soon after it: it has set a cookie and led back.
func Nearest(captures []Capture, at time.Time) (best Capture, ok bool) {
	for _, c := range captures {
		if !ok || c.Distance(at) <= best.Distance(at) {
			best, ok = c, true
		}
	}
	if !strings.HasPrefix(best.Status, "3") {
		return best, ok
	}
	if from, err := best.Taken(); err == nil {
		for _, c := range captures {
			if strings.HasPrefix(c.Status, "2") && c.Time >= best.Time && c.Distance(from) <= cameBack {
				return c, true
			}
		}
	}
	return best, ok
}

// Distance returns how many seconds lie between the capture and a time. A capture without a valid
// time is farthest.
func (c Capture) Distance(at time.Time) int64 {
	t, err := c.Taken()
	if err != nil {
		return math.MaxInt64
	}
	d := t.Unix() - at.Unix() // a time.Duration would hold only 292 years
	return max(d, -d)
}

// A Message is the response of a capture.
type Message struct {
	Status int            // 200 if the record does not say
	Header message.Header // of the capture itself, also if it is a revisit
	Body   io.Reader
	Size   int64 // of Body in bytes; -1 if it is known only at the end
	// Truncated says why the record is incomplete, such as "length"; empty if it is complete.
	Truncated string
	File      string // name of the WARC file with the body
	// Stored is the size of the record with the body, with its codings, in bytes.
	Stored int64

	files []io.Closer
}

// Type returns the media type of Body, as the crawl judges it. If the header does not tell it, Type looks at the
// beginning of Body, which may block.
func (m *Message) Type() message.Type {
	if t, sure := m.Header.Type(); sure {
		return t
	}
	b := bufio.NewReader(m.Body)
	m.Body = b
	head, _ := b.Peek(message.TypeBytes) // an error comes again
	return m.Header.TypeOf(head)
}

// Close closes the files of the archive.
func (m *Message) Close() error {
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Open opens the response of a capture. Body has no transfer coding and no content coding; package message describes
// its errors, and each read ends with ctx. The caller closes the Message. If the original of a revisit is in none of
// the directories, the error wraps warc.ErrNoOriginal. If only this capture cannot be read, it is a
// *warc.UnreadableError, which wraps message.ErrLayers if OpenCoded can read it.
func (a *Archive) Open(ctx context.Context, c Capture) (*Message, error) {
	return a.open(ctx, c, (*warc.Record).Message)
}

// OpenCoded is Open with the content codings left in place.
func (a *Archive) OpenCoded(ctx context.Context, c Capture) (*Message, error) {
	return a.open(ctx, c, (*warc.Record).CodedMessage)
}

func (a *Archive) open(ctx context.Context, c Capture,
	read func(*warc.Record, context.Context) ([]byte, io.Reader, int64, error)) (_ *Message, err error) {
	m := &Message{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	rec, f, err := warc.OpenRecord(a.fs, c.in.Dir, c.Line)
	if err != nil {
		return nil, err
	}
	m.files = append(m.files, f)
	m.File, m.Stored = f.Name(), rec.Size
	m.Truncated = strings.TrimSpace(rec.Header.Value("WARC-Truncated"))
	var head []byte
	if head, m.Body, m.Size, err = read(rec, ctx); err != nil {
		return nil, warc.Unreadable(m.File, err)
	}
	h := message.ReadHead(head)
	if rec.Type() == "revisit" {
		places := slices.Concat([]warc.Place{c.in}, a.places, a.originals)
		original, file, err := warc.OpenOriginal(a.fs, places, rec.Reference())
		if err != nil {
			return nil, err
		}
		m.files = append(m.files, file)
		m.File, m.Stored = file.Name(), original.Size
		var first []byte
		if first, m.Body, m.Size, err = read(original, ctx); err != nil {
			return nil, warc.Unreadable(m.File, err)
		}
		m.Truncated = cmp.Or(m.Truncated, strings.TrimSpace(original.Header.Value("WARC-Truncated")))
		if len(head) == 0 || h.Status == 304 { // it confirms the earlier response
			head = first
			h = message.ReadHead(head)
		}
	}
	m.Status, m.Header = h.Status, h.Header
	if m.Status < 100 || m.Status > 599 {
		m.Status = 200
	}
	if len(head) == 0 {
		m.Header = message.Header{{Name: "Content-Type", Value: rec.Header.Value("Content-Type")}}
	}
	return m, nil
}
