package handoff

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Kind is the meaning of a Record.
type Kind byte

// The kinds that are shipped.
const (
	Accept Kind = 'A' // a link was accepted: it is pending
	Finish Kind = 'F' // a URL was finished
	Known  Kind = 'K' // keys of URLs that were accepted
	Clock  Kind = 'C' // how long a host must rest
	Begin  Kind = 'B' // the whole state of a host follows
	End    Kind = 'E' // end of the whole state of a host
)

// Kinds only of the journal. A lower-case letter is a kind from before the Begin of its host.
const (
	kindVersion Kind = 'V'
	kindBatch   Kind = 'S'
	kindDone    Kind = 'D'
	older       Kind = 'a' - 'A'
)

// recordsVersion is the version of the kinds.
const recordsVersion = 1

// Limits of shipped records.
const (
	// MaxBatch bounds the bytes of a batch.
	MaxBatch = 1 << 20
	// MaxState bounds the State of a Record, and MaxPaths its Paths.
	MaxState = 64 << 10
	MaxPaths = 4096
	// MaxPause bounds Quiet and Pause.
	MaxPause = 366 * 24 * time.Hour

	maxName = 255 + 2 // of an IPv6 address with its brackets, or 253 of a name
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

// A Record is one fact about a host of a source.
type Record struct {
	Kind Kind
	// Host is the weburl.HostKey. AppendTo computes it from Link or Name if one is set.
	Host uint64

	// Number is the source's number of an Accept, or of the accept that a Finish belongs to; 0
	// for none.
	Number uint64
	// Link is the encoded link of an Accept.
	Link []byte

	// Path is the path part of a Finish's key.
	Path uint64
	// Disposition is the source's own code for a Finish. If it is 0 and State is empty, only
	// the key is kept.
	Disposition byte
	// State is the planner's state of a finished URL, or the other data of a Clock. It has
	// durations, not times, because clocks of two machines are never compared. In a later
	// Finish of a URL, an empty State means no change.
	State []byte

	// Width is the number of known bits of each path, 1 to 64. Paths are these bits as numbers
	// in ascending order.
	Width uint8
	Paths []uint64

	// Name is the host of a Clock. The host must rest for Quiet, counted from when the record
	// was shipped. Pause is its delay.
	Name         string
	Quiet, Pause time.Duration
}

// AppendTo appends r's encoding to dst.
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
		return append(binary.AppendUvarint(dst, r.Number), r.Link...)
	case Clock:
		dst = binary.AppendUvarint(dst, uint64(len(r.Name)))
		dst = append(dst, r.Name...)
		dst = binary.AppendUvarint(dst, uint64(r.Quiet.Microseconds()))
		dst = binary.AppendUvarint(dst, uint64(r.Pause.Microseconds()))
		return append(dst, r.State...)
	}
	dst = binary.BigEndian.AppendUint64(dst, r.Host)
	switch r.Kind {
	case Finish:
		dst = binary.BigEndian.AppendUint64(dst, r.Path)
		dst = binary.AppendUvarint(dst, r.Number)
		dst = append(dst, r.Disposition)
		dst = append(dst, r.State...)
	case Known:
		dst = append(dst, r.Width)
		for _, p := range r.Paths {
			for n := octets(r.Width) - 1; n >= 0; n-- {
				dst = append(dst, byte(p>>(8*n)))
			}
		}
	case kindDone:
		for _, p := range r.Paths {
			dst = binary.BigEndian.AppendUint64(dst, p)
		}
	}
	return dst
}

// octets returns the number of octets of a number of width bits.
func octets(width uint8) int { return (int(width) + 7) / 8 }

// Decode reads one Record from the front of src, and returns the number of its bytes. It checks
// all of them. The Record shares src's memory. Decode appends the Paths to paths, which may be
// nil. The error is ErrRecord.
func Decode(src []byte, paths []uint64) (r Record, n int, err error) {
	if len(src) == 0 {
		return r, 0, &RecordError{Reason: "nothing there"}
	}
	r.Kind = Kind(src[0])
	size, w := binary.Uvarint(src[1:])
	if w <= 0 || size > uint64(len(src)-1-w) {
		return r, 0, &RecordError{Kind: r.Kind, Reason: "cut off"}
	}
	n = 1 + w + int(size)
	if reason := r.decode(src[1+w:n:n], paths); reason != "" {
		return r, 0, &RecordError{Kind: r.Kind, Reason: reason}
	}
	return r, n, nil
}

// decode reads the payload of r's kind. If it cannot, it returns the reason.
func (r *Record) decode(p []byte, paths []uint64) (reason string) {
	switch r.Kind {
	case Accept:
		return r.decodeAccept(p)
	case Clock:
		return r.decodeClock(p)
	case Finish, Known, Begin, End:
	default:
		return "no such kind"
	}
	if len(p) < 8 {
		return "no host"
	}
	r.Host, p = binary.BigEndian.Uint64(p), p[8:]
	switch r.Kind {
	case Finish:
		return r.decodeFinish(p)
	case Known:
		return r.decodeKnown(p, paths)
	}
	if len(p) > 0 {
		return "more than a host"
	}
	return ""
}

func (r *Record) decodeAccept(p []byte) string {
	number, w := binary.Uvarint(p)
	if w <= 0 {
		return "no number"
	}
	l, n, err := weburl.PeekLink(p[w:])
	switch {
	case err != nil:
		return "no link"
	case l.URL.IsZero():
		return "a link to nothing"
	case w+n != len(p):
		return "more than a link"
	}
	k := l.URL.Key()
	r.Host, r.Path, r.Number, r.Link = k.Host, k.Path, number, p[w:]
	return ""
}

func (r *Record) decodeFinish(p []byte) string {
	if len(p) < 8 {
		return "no path"
	}
	r.Path, p = binary.BigEndian.Uint64(p), p[8:]
	number, w := binary.Uvarint(p)
	switch {
	case w <= 0 || w == len(p):
		return "no number and disposition"
	case len(p)-w-1 > MaxState:
		return "too much state"
	}
	r.Number, r.Disposition, r.State = number, p[w], p[w+1:]
	return ""
}

func (r *Record) decodeKnown(p []byte, paths []uint64) string {
	if len(p) == 0 || p[0] == 0 || p[0] > 64 {
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

func (r *Record) decodeClock(p []byte) string {
	k, w := binary.Uvarint(p)
	if w <= 0 || k > maxName || k > uint64(len(p)-w) {
		return "no host"
	}
	name := string(p[w : w+int(k)])
	if u, err := weburl.Parse("http://" + name + "/"); err != nil || u.Host() != name || u.Path() != "/" {
		return "no host's name"
	}
	p = p[w+int(k):]
	for _, d := range []*time.Duration{&r.Quiet, &r.Pause} {
		us, w := binary.Uvarint(p)
		if w <= 0 || us > uint64(MaxPause.Microseconds()) {
			return "no time to wait"
		}
		*d, p = time.Duration(us)*time.Microsecond, p[w:]
	}
	if len(p) > MaxState {
		return "too much state"
	}
	r.Name, r.Host, r.State = name, weburl.HostKey(name), p
	return ""
}

// finished has the fields of a Finish after its key.
type finished struct {
	number      uint64
	disposition byte
	state       []byte
}

// bare reports whether only the key must be kept.
func (f *finished) bare() bool { return f.disposition == 0 && len(f.state) == 0 }
