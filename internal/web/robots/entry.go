package robots

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// The classes of what a Cache knows about an origin.
const (
	// ClassRules is a robots.txt that was read (2xx).
	ClassRules uint8 = 1
	// ClassUnavailable means that there is none: all is allowed (RFC 9309, 2.3.1.3).
	ClassUnavailable uint8 = 2
	// ClassUnreachable means that nobody knows: nothing is allowed
	// (RFC 9309, 2.3.1.4). Fetched is then the time of the first failure.
	ClassUnreachable uint8 = 3
	// ClassStale is likewise unreachable, but an earlier copy is in force
	// (RFC 9309, 2.4).
	ClassStale uint8 = 4

	// classRedirect is a chain of redirects that is being followed. It is not
	// written down: the chain is followed anew.
	classRedirect uint8 = 5
)

// ErrEntry is an Entry's encoding that cannot be read.
var ErrEntry = errors.New("damaged robots entry")

// An Entry is what a Cache knows about an origin, for a journal or a snapshot.
type Entry struct {
	Origin string // scheme://authority
	Agent  string // whose rules these are; only a Cache for the same agent takes them back
	// Fetched is when the robots.txt was read, Expires when it is to be read
	// again; both are kept to the microsecond.
	Fetched, Expires time.Time
	Class            uint8
	// Failures counts the fetches in a row that failed, with ClassUnreachable
	// and ClassStale; at most 255.
	Failures uint8
	// Body is the robots.txt, reduced to the lines that concern Agent; empty
	// where there are no rules. At most ReadLimit bytes.
	Body []byte
}

const (
	entryVersion = 2
	maxOrigin    = 2048
	maxAgent     = 256
)

// AppendTo appends e's encoding to dst; the package comment draws it.
func (e Entry) AppendTo(dst []byte) []byte {
	dst = append(dst, entryVersion, e.Class)
	dst = binary.AppendVarint(dst, e.Fetched.UnixMicro())
	dst = binary.AppendVarint(dst, e.Expires.UnixMicro())
	dst = append(dst, e.Failures)
	dst = appendBytes(dst, e.Agent)
	dst = appendBytes(dst, e.Origin)
	return appendBytes(dst, e.Body)
}

func appendBytes[T string | []byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// DecodeEntry reads the one Entry that src holds, of any version. The Entry does not share
// src's memory. The error is ErrEntry.
func DecodeEntry(src []byte) (Entry, error) {
	var e Entry
	if len(src) < 2 || src[0] < 1 || src[0] > entryVersion {
		return e, fmt.Errorf("decode version: %w", ErrEntry)
	}
	version := src[0]
	e.Class = src[1]
	if e.Class < ClassRules || e.Class > ClassStale {
		return Entry{}, fmt.Errorf("decode class %d: %w", e.Class, ErrEntry)
	}
	src = src[2:]
	for _, t := range [...]*time.Time{&e.Fetched, &e.Expires} {
		v, n := binary.Varint(src)
		if n <= 0 {
			return Entry{}, fmt.Errorf("decode time: %w", ErrEntry)
		}
		*t, src = time.UnixMicro(v).UTC(), src[n:]
	}
	failed := e.Class == ClassUnreachable || e.Class == ClassStale
	switch {
	case version == 1 && failed:
		e.Failures = 1 // it did not count them
	case version > 1:
		if len(src) == 0 || (src[0] > 0) != failed {
			return Entry{}, fmt.Errorf("decode failures: %w", ErrEntry)
		}
		e.Failures, src = src[0], src[1:]
	}
	var agent, origin []byte
	for _, f := range [...]struct {
		to  *[]byte
		max uint64
	}{{&agent, maxAgent}, {&origin, maxOrigin}, {&e.Body, ReadLimit}} {
		k, n := binary.Uvarint(src)
		if n <= 0 || k > f.max || k > uint64(len(src)-n) {
			return Entry{}, fmt.Errorf("decode string: %w", ErrEntry)
		}
		*f.to, src = append([]byte(nil), src[n:n+int(k)]...), src[n+int(k):]
	}
	if len(src) != 0 || len(origin) == 0 {
		return Entry{}, fmt.Errorf("decode end: %w", ErrEntry)
	}
	e.Agent, e.Origin = string(agent), string(origin)
	return e, nil
}
