package state

import (
	"math"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Finish is the durable record that a URL is finished. It has enough data to omit the URL from
// the frontier, to count it again, and to check that its WARC record is complete.
type Finish struct {
	Link   link.Link // URL and Hops; Via is in the log
	Number uint64    // of its accept; 0: none, as for a robots.txt or a URL that was finished before
	Code   int       // as in crawl.log
	Kind   string    // of the error; empty for none
	Cause  string    // text of the error, at most maxCause bytes
	Mime   string
	Size   int64
	Began  time.Time     // in microseconds
	Took   time.Duration // in microseconds
	Delay  time.Duration // Crawl-delay of the host
	Flags  byte
	Digest [20]byte // of the payload as stored
	Body   [20]byte // of the payload without chunk sizes
	File   string   // WARC file; empty if nothing was archived
	End    int64    // offset in file of the end of the visit's last record
	Tries  int      // number of visits before this one
	Found  int      // number of references on the page
	Skips  []Skip
	State  []byte // the Planner's new state of the URL; empty: no change
	// First is the page's record, if it may be the first one with its content in the cluster. The encoding does not
	// have it.
	First *warc.Original
}

// A Skip is the number of links of a page that were not accepted for one reason.
type Skip struct {
	Reason string // see report.ReasonBy
	N      int
}

// The flags of a Finish.
const (
	FlagPage      = 1 << iota // a 2xx response to a URL of the frontier
	FlagDuplicate             // a revisit record
	FlagTruncated
	FlagRobots    // a robots.txt: logged and counted, but not a URL of the frontier
	FlagAgain     // the URL was finished before
	FlagUnchanged // and its content has not changed
	FlagUnknown   // and it is not known whether its content has changed
	FlagUnkept    // the archive does not get the response; see --keep

	// FlagNear marks a page that is a near-duplicate. A robots.txt is never a page, so both flags together are free.
	FlagNear = FlagPage | FlagRobots
	// FlagShared marks a URL whose response another link of the URL has fetched. A revisit record is in the archive, so
	// both flags together are free.
	FlagShared = FlagDuplicate | FlagUnkept
	// FlagEarlier marks a revisit of a record of an earlier crawl. A response that is cut off never becomes a revisit,
	// so both flags together are free.
	FlagEarlier = FlagDuplicate | FlagTruncated
)

// fields names the fields after the link, but for the State, which is the rest.
func (f *Finish) fields(c *fields.Codec) {
	kind, mime := f.Kind, f.Mime
	if f.Cause != "" {
		kind += "\x00" + f.Cause
	}
	if f.Body != f.Digest {
		mime += "\x00" + string(f.Body[:])
	}
	fields.Uint(c, &f.Number)
	fields.Int(c, &f.Code)
	fields.Text(c, &kind, math.MaxInt)
	fields.Text(c, &mime, math.MaxInt)
	fields.Uint(c, &f.Size)
	c.Micro(&f.Began)
	c.Duration(&f.Took, time.Microsecond)
	c.Duration(&f.Delay, time.Microsecond)
	fields.Byte(c, &f.Flags)
	c.Fixed(f.Digest[:])
	fields.Text(c, &f.File, math.MaxInt)
	fields.Uint(c, &f.End)
	fields.Uint(c, &f.Tries)
	fields.Uint(c, &f.Found)
	fields.List(c, &f.Skips, math.MaxInt, 2, func(s *Skip) {
		fields.Text(c, &s.Reason, math.MaxInt)
		fields.Uint(c, &s.N)
	})
	if c.Reads() {
		f.Kind, f.Cause, _ = strings.Cut(kind, "\x00")
		f.Body = f.Digest
		if plain, body, chunked := strings.Cut(mime, "\x00"); chunked {
			copy(f.Body[:], body)
			mime = plain
		}
		f.Mime = mime
	}
}

// AppendTo appends the encoding of f to dst.
func (f *Finish) AppendTo(dst []byte) []byte {
	c := fields.Write(f.Link.AppendTo(dst))
	f.fields(c)
	return append(c.Written(), f.State...) // to the end
}

// Dropped reports that the operator dropped the URL. Then it has brought no links.
func (f *Finish) Dropped() bool { return f.Code == report.CodeDeletedByUser }

// Exported reports that the page was stored for another agent, which archives it.
func (f *Finish) Exported() bool {
	_, ok := f.Link.Stored()
	return ok
}

// Imported reports that another agent has fetched the page. Such a finish ends no URL of this agent.
func (f *Finish) Imported() bool { return f.Link.Imported() }

// IsRobots reports that it is the finish of a robots.txt.
func (f *Finish) IsRobots() bool { return f.Flags&FlagNear == FlagRobots }

// IsNear reports that it is the finish of a page that is a near-duplicate of an archived one.
func (f *Finish) IsNear() bool { return f.Flags&FlagNear == FlagNear }

// IsShared reports that another link to the URL has fetched its response.
func (f *Finish) IsShared() bool { return f.Flags&FlagShared == FlagShared }

// IsEarlier reports that the record is a revisit of one of an earlier crawl.
func (f *Finish) IsEarlier() bool { return f.Flags&(FlagEarlier|FlagUnkept) == FlagEarlier }

// IsTruncated reports that the response is cut off.
func (f *Finish) IsTruncated() bool { return f.Flags&FlagTruncated != 0 && !f.IsEarlier() }

// IsPage reports that it is the finish of a page that counts here. An imported page counts at the agent that has
// fetched it.
func (f *Finish) IsPage() bool { return f.Flags&FlagPage != 0 && !f.Imported() }

// DecodeFinish reads what AppendTo wrote. Its State lies in src.
func DecodeFinish(src []byte) (f Finish, err error) {
	l, n, err := link.Decode(src)
	if err != nil {
		return f, err
	}
	f.Link = l
	c := fields.Read(src[n:])
	if f.fields(c); !c.Ok() {
		return f, ErrRecord
	}
	if c.Left() > 0 {
		f.State = c.Rest()
	}
	return f, nil
}
