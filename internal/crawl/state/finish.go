package state

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
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
)

// AppendTo appends the encoding of f to dst.
func (f *Finish) AppendTo(dst []byte) []byte {
	str := func(s string) {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	dst = f.Link.AppendTo(dst)
	dst = binary.AppendUvarint(dst, f.Number)
	dst = binary.AppendVarint(dst, int64(f.Code))
	if f.Cause == "" {
		str(f.Kind)
	} else {
		str(f.Kind + "\x00" + f.Cause)
	}
	if f.Body == f.Digest {
		str(f.Mime)
	} else {
		str(f.Mime + "\x00" + string(f.Body[:]))
	}
	dst = binary.AppendUvarint(dst, uint64(f.Size))
	dst = binary.AppendVarint(dst, f.Began.UnixMicro())
	dst = binary.AppendUvarint(dst, uint64(f.Took.Microseconds()))
	dst = binary.AppendUvarint(dst, uint64(f.Delay.Microseconds()))
	dst = append(dst, f.Flags)
	dst = append(dst, f.Digest[:]...)
	str(f.File)
	for _, n := range [...]int64{f.End, int64(f.Tries), int64(f.Found), int64(len(f.Skips))} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, s := range f.Skips {
		str(s.Reason)
		dst = binary.AppendUvarint(dst, uint64(s.N))
	}
	return append(dst, f.State...) // to the end
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

// IsPage reports that it is the finish of a page that counts here. An imported page counts at the agent that has
// fetched it.
func (f *Finish) IsPage() bool { return f.Flags&FlagPage != 0 && !f.Imported() }

// DecodeFinish reads what AppendTo wrote. Its State lies in src.
func DecodeFinish(src []byte) (f Finish, err error) {
	l, n, err := link.Decode(src)
	if err != nil {
		return f, err
	}
	f.Link, src = l, src[n:]
	bad := false
	uv := func() uint64 {
		v, n := binary.Uvarint(src)
		if n <= 0 {
			bad = true
			return 0
		}
		src = src[n:]
		return v
	}
	iv := func() int64 {
		v, n := binary.Varint(src)
		if n <= 0 {
			bad = true
			return 0
		}
		src = src[n:]
		return v
	}
	str := func() string {
		n := uv()
		if n > uint64(len(src)) {
			bad = true
			return ""
		}
		s := string(src[:n])
		src = src[n:]
		return s
	}
	f.Number = uv()
	f.Code = int(iv())
	f.Kind, f.Cause, _ = strings.Cut(str(), "\x00")
	mime, body, chunked := strings.Cut(str(), "\x00")
	f.Mime = mime
	f.Size = int64(uv())
	f.Began = time.UnixMicro(iv()).UTC()
	f.Took = time.Duration(uv()) * time.Microsecond
	f.Delay = time.Duration(uv()) * time.Microsecond
	if len(src) < 21 {
		return f, ErrRecord
	}
	f.Flags = src[0]
	copy(f.Digest[:], src[1:])
	if f.Body = f.Digest; chunked {
		copy(f.Body[:], body)
	}
	src = src[21:]
	f.File = str()
	f.End, f.Tries, f.Found = int64(uv()), int(uv()), int(uv())
	for n := uv(); n > 0 && !bad; n-- {
		f.Skips = append(f.Skips, Skip{str(), int(uv())})
	}
	if bad {
		return f, ErrRecord
	}
	if len(src) > 0 {
		f.State = src
	}
	return f, nil
}
