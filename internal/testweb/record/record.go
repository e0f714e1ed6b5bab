// Package record answers: what did these hosts say when they were recorded?
//
// It serves WARC files as a web, what the FC2L-UDCbot paper calls DiskWWW (4.1):
//
//	WARC files -> scan -> index in RAM (24 bytes a URL)
//	request -> key -> index -> record on disk -> response as recorded
//
// A response is sent byte for byte as it was recorded: status line, header and
// body with its content coding, whatever the client accepts. It is mended only
// where the record's writer has changed what the header promises:
//
//	recorded                                  sent
//	----------------------------------------  -------------------------------------------
//	chunked, chunks in the record             as recorded
//	chunked, chunks removed by the writer     the body as one chunk
//	body shorter than Content-Length, and     as recorded, then the connection closes
//	WARC-Truncated
//	another body than Content-Length says     Content-Length is the body's; none before
//	no length and not chunked                 as recorded, then the connection closes
//	a coding in Content-Encoding that was     without Content-Encoding, if the framing
//	taken off                                 shows that the writer changed the body
//	header without its empty line             with one
//	HTTP/2, HTTP/3                            HTTP/1.1 with Content-Length
//
// A revisit is answered with its own header and the body of its original; one
// that only says "not modified" with its original. Of several captures of a URL
// the latest counts, or the first from a chosen time on. A URL is found whatever
// its spelling of escapes; http and https are two. What was not recorded is 404.
//
// What always holds: bodies stay on disk; memory is the index and the responses
// being sent, each at most Config.MaxResponse. Files that are damaged, or not
// WARC at all, never panic and never end the serving: what cannot be read is
// counted, with the first places named.
//
// An Archive is immutable once it is open, and safe for concurrent use.
package record

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"
	"os"
	"sort"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Config says how to read an archive. The zero Config serves the latest captures.
type Config struct {
	// At chooses among the captures of one URL: the first at or after it, or
	// the last one before where there is none. Zero: the latest.
	At time.Time
	// Agent is the product token that a recorded robots.txt is read for, so
	// that the server can tell what it forbids. Empty means orbweaver.
	Agent string
	// MaxResponse bounds a response in bytes; of a longer one so much is sent,
	// and the connection closes. Zero means 64 MiB.
	MaxResponse int64
}

const (
	defaultMaxResponse = 64 << 20
	maxFiles           = 1 << 15 // place has 15 bits for the file
	maxNotes           = 20      // damages told one by one
	maxSeeds           = 1000
)

// ErrNothing is an archive without a response that can be served.
var ErrNothing = errors.New("no HTTP response that could be served")

// An Archive is WARC files in service. It implements testweb.Origin.
type Archive struct {
	cfg     Config
	files   []*os.File
	names   map[string]int32
	hosts   []host
	index   []capture // by host; in each the pages first, then the rest; both by hash
	seeds   []string
	summary Summary
	unread  atomic.Int64
}

// A host is a range of the index.
type host struct {
	testweb.OriginHost
	from, rest, to uint32 // pages: [from, rest), other captures: [rest, to)
	robots         [2]*testweb.Robots
}

// A capture is where a URL's response is: its record, and the one that has the
// body, which is another for a revisit.
type capture struct {
	hash      uint64
	own, body place
}

// head is the record that has the header of the response.
func (c capture) head() place {
	if c.body&alsoHead != 0 {
		return c.body &^ alsoHead
	}
	return c.own
}

// A place is a record in a file: 15 bits of file, 48 of offset.
type place uint64

// alsoHead marks a revisit's original that is served with its own header.
const alsoHead place = 1 << 63

func placeOf(file int, offset int64) place { return place(uint64(file)<<48 | uint64(offset)) }
func (p place) file() int                  { return int(p &^ alsoHead >> 48) }
func (p place) offset() int64              { return int64(p & (1<<48 - 1)) }

// A Summary is what Open has found.
type Summary struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Records are all of the files; URLs are those that are served, on so many
	// Hosts, Pages those of them with a 2xx status that are whole and no robots.txt.
	Records int64 `json:"records"`
	URLs    int64 `json:"urls"`
	Pages   int64 `json:"pages"`
	Hosts   int64 `json:"hosts"`
	// Revisits are the URLs whose body is that of another record.
	Revisits int64 `json:"revisits"`
	// Skipped counts the responses and revisits that are not served, by reason.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Damaged counts the places that could not be read, with the bytes passed
	// over there; Notes tells the first of them.
	Damaged      int64    `json:"damaged"`
	DamagedBytes int64    `json:"damaged_bytes"`
	Notes        []string `json:"notes,omitempty"`
}

// Reasons in Summary.Skipped.
const (
	Older        = "another capture of the URL is served" // see Config.At
	NotHTTP      = "not an HTTP response"
	OtherPort    = "on a port that is not the scheme's own"
	BadURL       = "no host name in the URL"
	NoOriginal   = "revisit of a response that is not in the files"
	SharedMember = "in a gzip member with other records: unpack the file to serve it"
)

// Open scans the files, which takes as long as reading them once. An error
// names the file, and the offset in it where there is one.
func Open(files []string, cfg Config) (*Archive, error) {
	if cfg.Agent == "" {
		cfg.Agent = "orbweaver"
	}
	if cfg.MaxResponse <= 0 {
		cfg.MaxResponse = defaultMaxResponse
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%d files: at most %d can be served together", len(files), maxFiles)
	}
	a := &Archive{cfg: cfg, names: map[string]int32{}, summary: Summary{Files: len(files), Skipped: map[string]int64{}}}
	s := &scan{a: a, addrs: map[string]netip.Addr{}, used: map[netip.Addr]bool{}, digests: map[uint64]original{}}
	for i, name := range files {
		if err := s.file(i, name); err != nil {
			a.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	s.finish()
	if len(a.index) == 0 {
		a.Close()
		err := fmt.Errorf("%d records in %d files: %w", a.summary.Records, len(files), ErrNothing)
		if len(a.summary.Notes) > 0 {
			err = fmt.Errorf("%w; %s", err, a.summary.Notes[0])
		}
		return nil, err
	}
	a.readRobots()
	return a, nil
}

// Close closes the files. Nothing may be answered afterwards.
func (a *Archive) Close() error {
	var first error
	for _, f := range a.files {
		if err := f.Close(); first == nil {
			first = err
		}
	}
	return first
}

// Summary is what the files have.
func (a *Archive) Summary() Summary { return a.summary }

// Unread counts the responses that could be read when the files were opened
// and not when they were asked for: each was answered with 500.
func (a *Archive) Unread() int64 { return a.unread.Load() }

// Seeds are the URLs that the recording began with: those whose metadata
// record names no link that led there, or else the first page. At most 1000.
func (a *Archive) Seeds() []string { return a.seeds }

// Hosts implements testweb.Origin.
func (a *Archive) Hosts() int64 { return int64(len(a.hosts)) }

// Find implements testweb.Origin.
func (a *Archive) Find(name string) (int64, bool) {
	n, ok := a.names[name]
	return int64(n), ok
}

// Host implements testweb.Origin.
func (a *Archive) Host(n int64) testweb.OriginHost { return a.hosts[n].OriginHost }

// find is the capture of a URL; page is its number among the host's pages, or -1.
func (a *Archive) find(n int64, secure bool, target string) (c capture, page int64, ok bool) {
	h := &a.hosts[n]
	key := keyOf(secure, target)
	if c, i, ok := search(a.index[h.from:h.rest], key); ok {
		return c, int64(i), true
	}
	c, _, ok = search(a.index[h.rest:h.to], key)
	return c, -1, ok
}

func search(list []capture, key uint64) (capture, int, bool) {
	i := sort.Search(len(list), func(i int) bool { return list[i].hash >= key })
	if i < len(list) && list[i].hash == key {
		return list[i], i, true
	}
	return capture{}, 0, false
}

// addrOf is the loopback address that stands for what: 127.1.0.0 to
// 127.254.255.255, one that no other has while such are to be found.
func addrOf(what string, used map[netip.Addr]bool) netip.Addr {
	h := fnv.New32a()
	io.WriteString(h, what)
	n := h.Sum32()
	for try := 0; ; try++ {
		a := netip.AddrFrom4([4]byte{127, byte(1 + (n>>16)%254), byte(n >> 8), byte(1 + n%254)})
		if !used[a] || try == 64 {
			used[a] = true
			return a
		}
		n++
	}
}
