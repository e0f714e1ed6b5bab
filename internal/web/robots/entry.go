package robots

import (
	"bytes"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/store/fields"
)

// The classes of what a Cache knows about an origin.
const (
	// ClassRules: a robots.txt was read (2xx).
	ClassRules uint8 = 1
	// ClassUnavailable: there is no robots.txt, so everything is allowed (RFC 9309, 2.3.1.3).
	ClassUnavailable uint8 = 2
	// ClassUnreachable: the rules are unknown, so nothing is allowed (RFC 9309, 2.3.1.4). Fetched
	// is then the time of the first failure.
	ClassUnreachable uint8 = 3
	// ClassStale: the robots.txt is unreachable, but an earlier copy still applies (RFC 9309, 2.4).
	// Fetched is then the time of the first failure.
	ClassStale uint8 = 4

	// classRedirect: the cache is following a chain of redirects. An Entry never has this class,
	// because a restart follows the chain from its beginning.
	classRedirect uint8 = 5
)

// ErrEntry means that the encoding of an Entry cannot be read.
var ErrEntry = errors.New("damaged robots entry")

// An Entry is what a Cache knows about an origin, for a journal or a snapshot.
type Entry struct {
	Origin string // scheme://authority
	Agent  string // the agent that the rules are for; Restore ignores an Entry for another agent
	// Fetched is when the robots.txt was read, and Expires is when it must be read again. Both have
	// a resolution of a microsecond.
	Fetched, Expires time.Time
	Class            uint8
	// Failures counts the failed fetches in a row, with ClassUnreachable and ClassStale; at most
	// 255.
	Failures uint8
	// Body is the robots.txt, reduced to the lines that concern Agent. It is empty if there are no
	// rules. At most ReadLimit bytes.
	Body []byte
}

const (
	entryVersion = 1
	maxOrigin    = 2048
	maxAgent     = 256
)

// AppendTo appends e's encoding to dst. The package comment describes it.
func (e Entry) AppendTo(dst []byte) []byte {
	c := fields.Write(dst)
	e.fields(c)
	return c.Written()
}

func (e *Entry) fields(c *fields.Codec) {
	c.Tag(entryVersion)
	fields.Byte(c, &e.Class)
	c.Check(e.Class >= ClassRules && e.Class <= ClassStale)
	c.Micro(&e.Fetched)
	c.Micro(&e.Expires)
	fields.Byte(c, &e.Failures)
	c.Check((e.Failures > 0) == (e.Class == ClassUnreachable || e.Class == ClassStale))
	fields.Text(c, &e.Agent, maxAgent)
	fields.Text(c, &e.Origin, maxOrigin)
	fields.Text(c, &e.Body, ReadLimit)
}

// Print returns a hash of what e allows. It is equal on all agents that read the same rules for the same Agent. It is 0
// if the robots.txt could not be read, also if an earlier copy still applies; 1 if there is none; and never 2.
func (e Entry) Print() uint64 {
	switch e.Class {
	case ClassRules:
		return max(xxhash.Sum64(e.Body), 3)
	case ClassUnavailable:
		return 1
	}
	return 0
}

// DecodeEntry reads the Entry in src. src must hold nothing else. The Entry does not share src's memory. The error is
// ErrEntry.
func DecodeEntry(src []byte) (e Entry, err error) {
	c := fields.Read(src)
	if e.fields(c); !c.Whole() || e.Origin == "" {
		return Entry{}, ErrEntry
	}
	e.Body = bytes.Clone(e.Body)
	return e, nil
}
