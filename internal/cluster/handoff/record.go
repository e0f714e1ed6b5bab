package handoff

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	switch r.Kind {
	case Accept:
		dst = append(binary.AppendUvarint(dst, r.Number), r.Link...)
	case Finish:
		dst = binary.AppendUvarint(dst, r.Number)
		if r.Pages == 0 {
			dst = append(dst, r.Disposition)
		} else {
			dst = binary.AppendUvarint(append(dst, r.Disposition|withPages), r.Pages)
		}
		dst = append(append(dst, r.Link...), r.State...)
	case Pages:
		dst = append(binary.AppendUvarint(dst, uint64(len(r.Name))), r.Name...)
		dst = binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, r.Counter), r.Pages)
	case Named:
		if dst = append(dst, r.Disposition); r.Archive != "" {
			dst[len(dst)-1] |= withArchive
			dst = append(binary.AppendUvarint(dst, uint64(len(r.Archive))), r.Archive...)
		}
		dst = append(dst, r.Link...)
	case Known:
		dst = append(binary.BigEndian.AppendUint64(dst, r.Host), r.Width)
		for _, p := range r.Paths {
			for n := octets(r.Width) - 1; n >= 0; n-- {
				dst = append(dst, byte(p>>(8*n)))
			}
		}
	case Clock:
		dst = append(binary.AppendUvarint(dst, uint64(len(r.Name))), r.Name...)
		dst = append(dst, r.Politeness.Slow, 0)
		for _, d := range [...]time.Duration{r.Politeness.Delay, r.Politeness.Quiet, r.Politeness.SlowFor} {
			dst = appendTime(dst, d)
		}
		for _, o := range r.Politeness.Origins {
			dst = append(binary.AppendUvarint(dst, uint64(len(o.Name))), o.Name...)
			dst = append(binary.AppendUvarint(dst, uint64(len(o.Cause))), o.Cause...)
			dst = appendTime(append(dst, o.Failures), o.Quiet)
		}
	}
	return dst
}

func appendTime(dst []byte, d time.Duration) []byte {
	return binary.AppendUvarint(dst, uint64((max(d, 0)+time.Microsecond-1)/time.Microsecond))
}

// withPages marks the disposition of a Finish that a number of pages follows.
const withPages = 0x80

// withArchive marks the disposition of a Named that an Archive follows.
const withArchive = 0x80

// octets returns the number of octets of a number of width bits.
func octets(width uint8) int { return (int(width) + 7) / 8 }

// uvarint is binary.Uvarint, but refuses all encodings of a number except the shortest. So a Record
// has one encoding only.
func uvarint(p []byte) (v uint64, n int) {
	if v, n = binary.Uvarint(p); n > 1 && p[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

// Decode reads one Record from the front of src, and returns the number of its bytes. It accepts
// untrusted input: it checks all of the bytes, and AppendTo gives the same bytes again. The
// Record shares src's memory, except for Name and Archive. Decode overwrites paths with the Paths; paths may
// be nil. The error is an ErrRecord.
func Decode(src []byte, paths []uint64) (r Record, n int, err error) {
	if len(src) == 0 {
		return r, 0, &RecordError{Reason: "nothing there"}
	}
	k := Kind(src[0])
	size, w := uvarint(src[1:])
	if w <= 0 || size > uint64(len(src)-1-w) {
		return r, 0, &RecordError{Kind: k, Reason: "cut off"}
	}
	n = 1 + w + int(size)
	if reason := r.decode(k, src[1+w:n:n], paths); reason != "" {
		return Record{}, 0, &RecordError{Kind: k, Reason: reason}
	}
	return r, n, nil
}

// decode replaces r by the Record with a payload. If that is malformed, decode returns the reason.
func (r *Record) decode(k Kind, p []byte, paths []uint64) (reason string) {
	*r = Record{Kind: k}
	switch k {
	case Accept:
		return r.decodeAccept(p)
	case Finish:
		return r.decodeFinish(p)
	case Named:
		return r.decodeNamed(p)
	case Known:
		return r.decodeKnown(p, paths)
	case Clock:
		return r.decodeClock(p)
	case Pages:
		return r.decodePages(p)
	}
	return "no such kind"
}

func (r *Record) decodeAccept(p []byte) string {
	number, w := uvarint(p)
	if w <= 0 {
		return "no number"
	}
	_, rest, reason := r.decodeLink(p[w:])
	if reason == "" && len(rest) > 0 {
		return "more than a link"
	}
	r.Number = number
	return reason
}

func (r *Record) decodeFinish(p []byte) string {
	number, w := uvarint(p)
	if w <= 0 || w == len(p) || p[w]&^withPages > Archived {
		return "no number and disposition"
	}
	r.Number, r.Disposition = number, p[w]&^withPages
	paged := p[w]&withPages != 0
	if p = p[w+1:]; paged {
		if r.Pages, w = uvarint(p); w <= 0 || r.Pages == 0 || r.Pages > MaxPages {
			return "no number of pages"
		}
		p = p[w:]
	}
	l, state, reason := r.decodeLink(p)
	switch {
	case reason != "":
		return reason
	case l.Via != "":
		return "a link with a referrer"
	case len(state) > MaxState:
		return "too much state"
	}
	r.State = state
	return ""
}

func (r *Record) decodeNamed(p []byte) string {
	if len(p) == 0 || p[0] != Archived && p[0] != Lost && p[0] != Lost|withArchive {
		return "no disposition"
	}
	r.Disposition = p[0] &^ withArchive
	of := p[0]&withArchive != 0
	if p = p[1:]; of {
		k, w := uvarint(p)
		if w <= 0 || k > uint64(len(p)-w) || !IsArchive(string(p[w:w+int(k)])) {
			return "no archive"
		}
		r.Archive, p = string(p[w:w+int(k)]), p[w+int(k):]
	}
	l, rest, reason := r.decodeLink(p)
	if reason != "" {
		return reason
	}
	only := link.Link{URL: l.URL}
	only.SetRefetches(l.Refetches())
	if len(rest) > 0 || l != only {
		return "more than a URL"
	}
	return ""
}

// decodeLink reads the link at the front of p. It returns the link, which shares p's memory, and
// what follows.
func (r *Record) decodeLink(p []byte) (l link.Link, rest []byte, reason string) {
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

func (r *Record) decodeKnown(p []byte, paths []uint64) string {
	if len(p) < 8 {
		return "no host"
	}
	r.Host, p = binary.BigEndian.Uint64(p), p[8:]
	if len(p) == 0 || p[0] == 0 || p[0] > wholeKey {
		return "no width from 1 to 64"
	}
	r.Width, p = p[0], p[1:]
	size := octets(r.Width)
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

// decodeName reads the name of a host at the front of p, and returns what follows.
func (r *Record) decodeName(p []byte) (rest []byte, reason string) {
	k, w := uvarint(p)
	if w <= 0 || k > maxName || k > uint64(len(p)-w) {
		return nil, "no host"
	}
	name := string(p[w : w+int(k)])
	if u, err := weburl.Parse("http://" + name + "/"); err != nil || u.Host() != name || u.Path() != "/" {
		return nil, "no host's name"
	}
	r.Name, r.Host = name, link.HostKey(name)
	return p[w+int(k):], ""
}

func (r *Record) decodePages(p []byte) string {
	p, reason := r.decodeName(p)
	switch {
	case reason != "":
		return reason
	case len(p) < 8:
		return "no counter"
	}
	pages, w := uvarint(p[8:])
	if w <= 0 || pages == 0 || pages > MaxPages {
		return "no number of pages"
	}
	if r.Counter, r.Pages = binary.BigEndian.Uint64(p), pages; len(p) > 8+w {
		return "more than a number of pages"
	}
	return ""
}

func (r *Record) decodeClock(p []byte) string {
	p, reason := r.decodeName(p)
	if reason != "" {
		return reason
	}
	if len(p) < 2 || p[0] > MaxSlow || p[1] != 0 {
		return "no pauses"
	}
	r.Politeness.Slow, p = p[0], p[2:]
	for _, d := range []*time.Duration{&r.Politeness.Delay, &r.Politeness.Quiet, &r.Politeness.SlowFor} {
		if p = decodeTime(d, p); p == nil {
			return "no time to wait"
		}
	}
	for len(p) > 0 {
		if p, reason = r.decodeOrigin(p); reason != "" {
			return reason
		}
	}
	return ""
}

// decodeTime reads a time at the front of p, and returns what follows. nil: there is none.
func decodeTime(d *time.Duration, p []byte) (rest []byte) {
	us, w := uvarint(p)
	if w <= 0 || us > uint64(MaxPause.Microseconds()) {
		return nil
	}
	*d = time.Duration(us) * time.Microsecond
	return p[w:]
}

// decodeOrigin reads one of the Origins at the front of p, and returns what follows.
func (r *Record) decodeOrigin(p []byte) (rest []byte, reason string) {
	var o Origin
	for _, text := range [...]*string{&o.Name, &o.Cause} {
		k, w := uvarint(p)
		if w <= 0 || k > uint64(len(p)-w) || k > weburl.MaxParse {
			return nil, "no origin"
		}
		*text, p = string(p[w:w+int(k)]), p[w+int(k):]
	}
	odd := func(c rune) bool { return c != '-' && (c < 'a' || c > 'z') }
	u, err := weburl.Parse(o.Name + "/")
	switch {
	case err != nil || u.Host() != r.Name || u.Origin() != o.Name:
		return nil, "no origin of the host"
	case o.Cause == "" || len(o.Cause) > maxCause || strings.ContainsFunc(o.Cause, odd):
		return nil, "no cause"
	case len(p) == 0 || p[0] == 0:
		return nil, "no failures"
	case len(r.Politeness.Origins) == MaxOrigins:
		return nil, "too many origins"
	}
	o.Failures = p[0]
	if rest = decodeTime(&o.Quiet, p[1:]); rest == nil {
		return nil, "no time to wait"
	}
	r.Politeness.Origins = append(r.Politeness.Origins, o)
	return rest, ""
}
