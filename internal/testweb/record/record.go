// Package record answers: how did these hosts respond when they were recorded?
//
// It serves the responses in WARC files as a web, as DiskWWW does in the FC2L-UDCbot paper (4.1):
//
//	WARC files -> scan -> index in RAM (24 bytes for each URL)
//	request -> key -> index -> record on disk -> response as recorded
//
// A response is sent byte for byte as it was recorded: status line, header and body with its content coding, even if
// the client does not accept that coding. It is repaired only where the program that wrote the record changed something
// that the header describes:
//
//	recorded                                  sent
//	----------------------------------------  -------------------------------------------
//	chunked, with chunks in the record        as recorded
//	chunked, chunks removed by the writer     the body as one chunk
//	body shorter than Content-Length, and     as recorded, then the connection closes
//	WARC-Truncated
//	body of another size than Content-Length  with the Content-Length of the body
//	no length and not chunked                 as recorded, then the connection closes
//	content coding removed by the writer      without Content-Encoding, if the framing
//	                                          shows that the writer changed the body
//	header without its empty line             with the empty line
//	HTTP/2, HTTP/3                            HTTP/1.1 with Content-Length
//
// A revisit is served with its own header and the body of its original. A revisit that only says "not modified" is
// served as its original. Of several captures of a URL, the latest is served, or the first from a chosen time on.
// Different escapes of a URL lead to the same capture. http and https are different URLs, and so are different ports. A
// URL that was not recorded is a 404.
//
// Invariants: bodies stay on disk. Memory holds the index and the responses that are being sent, each at most
// Config.MaxResponse. A damaged file, or one that is not WARC, neither causes a panic nor ends the serving: parts that
// cannot be read are counted, and the first of them are listed.
//
// An open Archive does not change and is safe for concurrent use. The caller of Open closes it.
package record

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Config says how to read the files. The zero Config serves the latest captures.
type Config struct {
	// At selects one of several captures of a URL: the first at or after this time or, if there is none, the last one
	// before it. Zero selects the latest.
	At time.Time
	// Agent is the product token for which a recorded robots.txt is read, so that the server knows what it forbids.
	// Empty means orbweaver.
	Agent string
	// MaxResponse is how many bytes of a response are sent. After them the connection closes. Zero means 64 MiB.
	MaxResponse int64
}

const (
	defaultMaxResponse = 64 << 20
	maxFiles           = 1 << 15 // because a place has 15 bits for the file
	maxNotes           = 20      // damaged places that are listed
	maxSeeds           = 1000
	maxPorts           = 256
	maxIPs             = 64
)

// ErrNothing means that the files have no response that can be served.
var ErrNothing = errors.New("no HTTP response that could be served")

// An Archive serves WARC files. It implements testweb.Origin.
type Archive struct {
	cfg     Config
	files   []*os.File
	names   map[string]int32
	hosts   []host
	index   []capture // by host, and for each host the pages before the rest; both sorted by hash
	seeds   []string
	ports   []testweb.Port
	ips     []netip.Addr
	summary Summary
	unread  atomic.Int64
}

// A host is a range of the index.
type host struct {
	testweb.OriginHost
	from, rest, to uint32             // pages: [from, rest), other captures: [rest, to)
	robots         [2]*testweb.Robots // of http and https, on their own ports
	others         []otherPort
}

// An otherPort is an origin of a host on a port that is not the scheme's own, with its robots.txt.
type otherPort struct {
	origin
	robots *testweb.Robots
}

// rules returns the robots.txt of an origin; nil allows everything.
func (h *host) rules(o origin) *testweb.Robots {
	if o.port != 0 {
		for _, k := range h.others {
			if k.origin == o {
				return k.robots
			}
		}
		return nil
	}
	if o.secure {
		return h.robots[1]
	}
	return h.robots[0]
}

// A capture says where the response for a URL is: in its own record or, for a revisit, with its body in another record.
type capture struct {
	hash      uint64
	own, body place
}

// head returns the place of the record that has the header of the response.
func (c capture) head() place {
	if c.body&alsoHead != 0 {
		return c.body &^ alsoHead
	}
	return c.own
}

// A place identifies a record: 15 bits for the file and 48 bits for the offset in it.
type place uint64

// alsoHead marks the place of an original that is served with its own header instead of the revisit's.
const alsoHead place = 1 << 63

func placeOf(file int, offset int64) place { return place(uint64(file)<<48 | uint64(offset)) }
func (p place) file() int                  { return int(p &^ alsoHead >> 48) }
func (p place) offset() int64              { return int64(p & (1<<48 - 1)) }

// A Summary describes what Open found.
type Summary struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Records counts all records. URLs counts the URLs that are served, Hosts their hosts. Pages counts the served URLs
	// with a 2xx status whose response is complete, without robots.txt.
	Records int64 `json:"records"`
	URLs    int64 `json:"urls"`
	Pages   int64 `json:"pages"`
	Hosts   int64 `json:"hosts"`
	// Revisits counts the URLs whose body is in another record.
	Revisits int64 `json:"revisits"`
	// Skipped counts the responses and revisits that are not served, by reason.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Damaged counts the places that could not be read, DamagedBytes the bytes that were skipped there. Notes describes
	// the first 20 of them.
	Damaged      int64    `json:"damaged"`
	DamagedBytes int64    `json:"damaged_bytes"`
	Notes        []string `json:"notes,omitempty"`
}

// The reasons in Summary.Skipped.
const (
	Older        = "another capture of the URL is served" // see Config.At
	NotHTTP      = "not an HTTP response"
	OtherPort    = "on a port that is not served"        // see Archive.Ports
	OtherAddr    = "on an IP address that is not served" // see Archive.IPs
	IPv6Addr     = "on an IPv6 address; only IPv4 addresses are served"
	BadURL       = "no host name in the URL"
	NoOriginal   = "revisit of a response that is not in the files"
	SharedMember = "in a gzip member with other records: unpack the file to serve it"
)

// Open scans the files, which takes as long as to read them once. An error names the file and, for damage, the offset.
// If there is nothing to serve, the error wraps ErrNothing. The caller must Close the Archive.
func Open(files []string, cfg Config) (*Archive, error) {
	if cfg.Agent == "" {
		cfg.Agent = "orbweaver"
	}
	if cfg.MaxResponse <= 0 {
		cfg.MaxResponse = defaultMaxResponse
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%d WARC files were given; at most %d can be served together", len(files), maxFiles)
	}
	a := &Archive{cfg: cfg, names: map[string]int32{}, summary: Summary{Files: len(files), Skipped: map[string]int64{}}}
	s := &scan{a: a, addrs: map[string]netip.Addr{}, used: map[netip.Addr]bool{}, digests: map[uint64]original{},
		ports: map[uint16]bool{80: false, 443: true}}
	for i, name := range files {
		if err := s.file(i, name); err != nil {
			a.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	s.finish()
	if len(a.index) == 0 {
		a.Close()
		err := fmt.Errorf("%s in %s: %w", english.Plural(int(a.summary.Records), "record", ""),
			english.Plural(len(files), "file", ""), ErrNothing)
		for _, why := range slices.Sorted(maps.Keys(a.summary.Skipped)) {
			err = fmt.Errorf("%w; %s %s", err, english.Plural(int(a.summary.Skipped[why]), "response", ""), why)
		}
		if len(a.summary.Notes) > 0 {
			err = fmt.Errorf("%w; %s", err, a.summary.Notes[0])
		}
		return nil, err
	}
	a.readRobots()
	return a, nil
}

// Close closes the files. After it Answer fails.
func (a *Archive) Close() error {
	var first error
	for _, f := range a.files {
		if err := f.Close(); first == nil {
			first = err
		}
	}
	return first
}

// Summary returns what Open found.
func (a *Archive) Summary() Summary { return a.summary }

// Unread returns the number of requests that were answered with 500, because a record could be read by Open but not
// when it was requested.
func (a *Archive) Unread() int64 { return a.unread.Load() }

// Seeds returns the URLs with which the recording began, at most 1000: those whose metadata record names a seed and no
// link, or else the first page.
func (a *Archive) Seeds() []string { return a.seeds }

// Ports returns the ports that are served besides 80 and 443, at most 256, in the order of the files. A port has the
// scheme of its first response. Responses of the other scheme, on further ports and on port 53 are not served.
func (a *Archive) Ports() []testweb.Port { return a.ports }

// IPs returns the hosts whose names are IPv4 addresses, at most 64, without loopback addresses. Responses of further
// ones, and of addresses that no single machine has, are not served.
func (a *Archive) IPs() []netip.Addr { return a.ips }

func (a *Archive) Hosts() int64 { return int64(len(a.hosts)) }

func (a *Archive) Find(name string) (int64, bool) {
	n, ok := a.names[name]
	return int64(n), ok
}

func (a *Archive) Host(n int64) testweb.OriginHost { return a.hosts[n].OriginHost }

// find returns the capture of a URL. page is its number among the host's pages, or -1 if it is not a page.
func (a *Archive) find(n int64, o origin, target string) (c capture, page int64, ok bool) {
	h := &a.hosts[n]
	key := keyOf(o, target)
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
