package handoff

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Kind is the meaning of a Record.
type Kind byte

// The kinds of records.
const (
	Accept Kind = 'A' // a link was accepted: it is pending
	Finish Kind = 'F' // a URL was finished
	Known  Kind = 'K' // keys of URLs that were finished
	Clock  Kind = 'C' // how long a host must rest
	Named  Kind = 'N' // an archive has a record of a URL
	Pages  Kind = 'P' // how many pages of a host an agent has fetched

	kindVersion Kind = 'V' // only in the journal
)

// recordsVersion is the version of the kinds.
const recordsVersion = 1

// The dispositions of a URL. Zero, which only a Finish may have, means that the sender's archive has no
// record of it. If records of a URL disagree, the largest disposition counts.
const (
	Archived byte = 1 // the sender's archive has a record of the URL
	Lost     byte = 2 // an archive that was lost had one; only in a Named
)

// Limits of records.
const (
	// MaxBatch bounds the bytes of a batch.
	MaxBatch = 1 << 20
	// MaxState bounds the State of a Record, and MaxPaths its Paths.
	MaxState = 64 << 10
	MaxPaths = 4096
	// MaxPages bounds the Pages of a Record.
	MaxPages = 1<<32 - 1
	// MaxPause bounds the times of a Rest, and MaxSlow its Slow.
	MaxPause = 366 * 24 * time.Hour
	MaxSlow  = 64
	// MaxOrigins bounds the Origins of a Rest.
	MaxOrigins = 16
	wholeKey   = 64
	maxName    = 255 + 2 // of an IPv6 address with its brackets, or 253 of a name
	maxCause   = 32
)

// Errors of this package; test with errors.Is.
var (
	// ErrRecord reports a malformed record. The error is a *RecordError.
	ErrRecord = errors.New("malformed record")
	// ErrTooLarge reports a batch of more than MaxBatch bytes.
	ErrTooLarge = errors.New("batch too large")
)

// A RecordError reports the first malformed record of a batch.
type RecordError struct {
	Index  int // from 0
	Kind   Kind
	Reason string
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%v: number %d, kind %q: %s", ErrRecord, e.Index, rune(e.Kind), e.Reason)
}

// Is makes a RecordError an ErrRecord.
func (e *RecordError) Is(target error) bool { return target == ErrRecord }

// A Record is one fact about a host.
type Record struct {
	Kind Kind
	// Host is the link.HostKey. Decode computes it from Link or Name if the kind has one. The
	// encoder uses it only for a Known.
	Host uint64

	// Number is the sender's number of an Accept, or of the accept that a Finish belongs to; 0
	// for none.
	Number uint64
	// Link is the encoded link.Link of an Accept, a Finish or a Named. That of a Finish has no Via, and
	// that of a Named has only the URL and its Refetches.
	Link []byte
	// Path is the path part of Link's key. Only Decode sets it.
	Path uint64

	// Disposition belongs to a Finish or a Named, State to a Finish. State is the planner's state of the URL. It has
	// durations, not times, because clocks of two machines are never compared. In a later Finish
	// of a URL, an empty State means no change.
	Disposition byte
	State       []byte

	// Archive tells whose archive a Lost record was in, as Source.Archive does. Empty: that is not known.
	Archive string

	// Pages is how many pages of the host an agent had fetched: in a Finish the sender, with this page, and 0 if it
	// is no page; in a Pages record the agent with the Counter. See Source.Counter.
	Pages   uint64
	Counter uint64

	// Width is the number of bits of each of the Paths of a Known, 1 to 64; 64 for whole keys. Paths are the
	// top bits of path keys as numbers in ascending order.
	Width uint8
	Paths []uint64

	// Name is the host of a Clock or a Pages.
	Name       string
	Politeness Politeness
}

// Politeness is the politeness state of a host. Its times are durations, counted from when the record
// was shipped. Counting from when it arrives is safe.
type Politeness struct {
	Delay   time.Duration // the host's own delay (Crawl-delay)
	Quiet   time.Duration // time without a request
	SlowFor time.Duration // rest of the last pause
	Slow    uint8         // number of pauses that still count
	Origins []Origin      // those that fail
}

// An Origin is an origin of the host (scheme, host and port) that fails.
type Origin struct {
	Name     string        // as of weburl.URL.Origin
	Cause    string        // of the last failure: letters and hyphens
	Failures uint8         // in a row, at least 1
	Quiet    time.Duration // time without a try
}

// Key returns the key of the URL of an Accept, a Finish or a Named that Decode has read.
func (r *Record) Key() link.Key { return link.Key{Host: r.Host, Path: r.Path} }

// AppendTo appends r's encoding to dst. It rounds times up to microseconds, and negative times to
// zero.
func (r *Record) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(r.Kind))
	at := len(dst)
	dst = r.appendPayload(dst)
	var size [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(size[:], uint64(len(dst)-at))
	return slices.Insert(dst, at, size[:n]...)
}

func (r *Record) appendPayload(dst []byte) []byte {
	c := fields.Write(dst)
	r.fields(c, nil)
	return c.Written()
}

// withPages marks the disposition of a Finish that a number of pages follows.
const withPages = 0x80

// withArchive marks the disposition of a Named that an Archive follows.
const withArchive = 0x80

// octets returns the number of octets of a number of width bits.
func octets(width uint8) int { return (int(width) + 7) / 8 }

// Decode reads one Record from the front of src, and returns the number of its bytes. It accepts
// untrusted input: it checks all of the bytes, and AppendTo gives the same bytes again. The
// Record shares src's memory, except for Name and Archive. Decode overwrites paths with the Paths; paths may
// be nil. The error is an ErrRecord.
func Decode(src []byte, paths []uint64) (r Record, n int, err error) {
	if len(src) == 0 {
		return r, 0, &RecordError{Reason: "nothing there"}
	}
	var k Kind
	var p []byte
	c := fields.Read(src)
	fields.Byte(c, &k)
	if fields.Text(c, &p, math.MaxInt); !c.Ok() {
		return r, 0, &RecordError{Kind: k, Reason: "cut off"}
	}
	if reason := r.decode(k, p, paths); reason != "" {
		return Record{}, 0, &RecordError{Kind: k, Reason: reason}
	}
	return r, len(src) - c.Left(), nil
}

// decode replaces r by the Record with a payload. If that is malformed, decode returns the reason.
func (r *Record) decode(k Kind, p []byte, paths []uint64) (reason string) {
	*r = Record{Kind: k}
	c := fields.Read(p)
	if reason = r.fields(c, paths); reason == "" && !c.Whole() {
		return "a field that is malformed, missing, or one too many"
	}
	return reason
}

// fields names the fields of a payload. If those that are read contradict each other, it returns the reason.
func (r *Record) fields(c *fields.Codec, paths []uint64) (reason string) {
	switch r.Kind {
	case Accept:
		var rest []byte
		fields.Uint(c, &r.Number)
		if _, rest, reason = r.link(c); len(rest) > 0 {
			return "more than a link"
		}
	case Finish:
		fields.Uint(c, &r.Number)
		if r.disposition(c, withPages, r.Pages > 0, Archived) {
			r.pages(c)
		}
		l, rest, reason := r.link(c)
		switch {
		case !c.Reads():
			c.Fixed(r.State)
		case reason != "":
			return reason
		case l.Via != "":
			return "a link with a referrer"
		case len(rest) > MaxState:
			return "too much state"
		default:
			r.State = rest
		}
	case Named:
		return r.named(c)
	case Known:
		return r.known(c, paths)
	case Clock:
		return r.clock(c)
	case Pages:
		reason = r.name(c)
		fields.Fixed64(c, &r.Counter)
		r.pages(c)
	default:
		return "no such kind"
	}
	return reason
}

// disposition is a byte that says with mark whether an optional field follows it.
func (r *Record) disposition(c *fields.Codec, mark byte, marked bool, most byte) bool {
	d := r.Disposition
	if marked {
		d |= mark
	}
	if fields.Byte(c, &d); c.Reads() {
		r.Disposition, marked = d&^mark, d&mark != 0
		c.Check(r.Disposition <= most)
	}
	return marked
}

func (r *Record) pages(c *fields.Codec) {
	fields.Uint(c, &r.Pages)
	c.Check(r.Pages > 0 && r.Pages <= MaxPages)
}

// link is the Link, and all that follows it. It returns the link, which shares the memory of the payload.
func (r *Record) link(c *fields.Codec) (l link.Link, rest []byte, reason string) {
	if !c.Reads() {
		c.Fixed(r.Link)
		return l, nil, ""
	}
	p := c.Rest()
	l, n, err := link.Peek(p)
	switch {
	case err != nil:
		return l, nil, "no link"
	case l.URL.IsZero():
		return l, nil, "a link to nothing"
	}
	k := l.Key()
	r.Host, r.Path, r.Link = k.Host, k.Path, p[:n:n]
	return l, p[n:], ""
}

func (r *Record) named(c *fields.Codec) string {
	if r.disposition(c, withArchive, r.Archive != "", Lost) {
		fields.Text(c, &r.Archive, math.MaxInt)
		c.Check(r.Disposition == Lost && IsArchive(r.Archive))
	}
	c.Check(r.Disposition > 0)
	l, rest, reason := r.link(c)
	if reason != "" || !c.Reads() {
		return reason
	}
	only := link.Link{URL: l.URL}
	only.SetRefetches(l.Refetches())
	if len(rest) > 0 || l != only {
		return "more than a URL"
	}
	return ""
}

func (r *Record) known(c *fields.Codec, paths []uint64) string {
	fields.Fixed64(c, &r.Host)
	fields.Byte(c, &r.Width)
	if !c.Reads() {
		var p [8]byte
		for _, path := range r.Paths {
			binary.BigEndian.PutUint64(p[:], path)
			c.Fixed(p[8-octets(r.Width):])
		}
		return ""
	}
	if r.Width == 0 || r.Width > wholeKey {
		return "no width from 1 to 64"
	}
	p, size := c.Rest(), octets(r.Width)
	switch {
	case len(p) == 0 || len(p)%size != 0:
		return "no whole paths"
	case len(p)/size > MaxPaths:
		return "too many paths"
	}
	paths = slices.Grow(paths[:0], len(p)/size)
	for ; len(p) > 0; p = p[size:] {
		v := uint64(0)
		for _, b := range p[:size] {
			v = v<<8 | uint64(b)
		}
		if v>>(r.Width-1)>>1 != 0 {
			return "a path of more bits"
		}
		if k := len(paths); k > 0 && paths[k-1] >= v {
			return "paths not in order"
		}
		paths = append(paths, v)
	}
	r.Paths = paths
	return ""
}

// name is the name of a host.
func (r *Record) name(c *fields.Codec) string {
	if fields.Text(c, &r.Name, maxName); !c.Reads() {
		return ""
	}
	if u, err := weburl.Parse("http://" + r.Name + "/"); err != nil || u.Host() != r.Name || u.Path() != "/" {
		return "no host's name"
	}
	r.Host = link.HostKey(r.Name)
	return ""
}

func (r *Record) clock(c *fields.Codec) string {
	if reason := r.name(c); reason != "" {
		return reason
	}
	p := &r.Politeness
	fields.Byte(c, &p.Slow)
	c.Tag(0)
	c.Check(p.Slow <= MaxSlow)
	for _, d := range [...]*time.Duration{&p.Delay, &p.Quiet, &p.SlowFor} {
		wait(c, d)
	}
	for i := range p.Origins {
		p.Origins[i].fields(c)
	}
	for c.Reads() && c.Left() > 0 {
		var o Origin
		if o.fields(c); !c.Ok() {
			break
		}
		odd := func(c rune) bool { return c != '-' && (c < 'a' || c > 'z') }
		u, err := weburl.Parse(o.Name + "/")
		switch {
		case err != nil || u.Host() != r.Name || u.Origin() != o.Name:
			return "no origin of the host"
		case o.Cause == "" || strings.ContainsFunc(o.Cause, odd):
			return "no cause"
		case len(p.Origins) == MaxOrigins:
			return "too many origins"
		}
		p.Origins = append(p.Origins, o)
	}
	return ""
}

func (o *Origin) fields(c *fields.Codec) {
	fields.Text(c, &o.Name, weburl.MaxParse)
	fields.Text(c, &o.Cause, maxCause)
	fields.Byte(c, &o.Failures)
	c.Check(o.Failures > 0)
	wait(c, &o.Quiet)
}

// wait is a time, rounded up.
func wait(c *fields.Codec, d *time.Duration) {
	us := (max(*d, 0) + time.Microsecond - 1) / time.Microsecond
	if fields.Uint(c, &us); c.Reads() {
		c.Check(us >= 0 && us <= MaxPause/time.Microsecond)
		*d = us * time.Microsecond
	}
}
