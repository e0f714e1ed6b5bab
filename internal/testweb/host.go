package testweb

import (
	"net/netip"
	"strconv"

	"golang.org/x/net/publicsuffix"
)

// A hostState is what the tracker knows of a host. It takes some 200 bytes, because there are millions; extra holds
// what few hosts need. The lock of its group guards everything that changes.
type hostState struct {
	number int64 // the host's number in the Origin, or one of the numbers below 0
	domain *domainState
	group  group // of the requests to this host
	extra  *hostExtra

	conns     connRefs
	notBefore int64  // the time that the last Retry-After asks for
	robotsAt  int64  // end of the first response to a GET of /robots.txt; 0: none yet
	row       []byte // marks of the first pages
	bytes     int64
	ended     uint32 // requests
	pages     uint32 // complete responses to a GET with a 2xx status, without robots.txt
	urls      uint32 // distinct URLs
	fetched   uint32 // pages of the Origin that were answered
	opened    uint32 // connections
	counts    [2]uint32
	codes     [2]uint16 // the status codes that counts counts
	robots    uint16    // responses to /robots.txt
	maxConns  uint16
}

// The numbers of hosts that the Origin does not have, and of the state that stands for all hosts beyond
// Config.MaxHosts.
const (
	noNumber       = -1
	overflowNumber = -2
)

// unknownHost is the name in the report that stands for all hosts that the Web does not have.
const unknownHost = "(unknown)"

// A hostExtra is the part of a host's state that few of the Origin's hosts need.
type hostExtra struct {
	*namedHost // nil for a host of the Origin
	twice      uint32
	aborted    uint32
	broken     uint32
	early      uint32 // requests before robots.txt was answered
	status     map[uint16]uint32
	pieces     map[int64]*[piecePages / 4]byte
	others     urlSet
}

// more returns the host's extra state. It creates it if needed.
func (h *hostState) more() *hostExtra {
	if h.extra == nil {
		h.extra = new(hostExtra)
	}
	return h.extra
}

// named reports whether the host does not belong to the Origin.
func (h *hostState) named() bool { return h.number == noNumber }

// site returns the host's Site, nil if it has none.
func (h *hostState) site() *site {
	if h.named() {
		return h.extra.site
	}
	return nil
}

// A namedHost is what the tracker knows of a host that does not belong to the Origin.
type namedHost struct {
	name  string
	site  *site // nil for unknownHost
	known map[uint64]urlCount
	names map[uint64]string // the first Config.KeepURLs URLs
}

// A urlCount counts the requests for a URL and the complete responses.
type urlCount struct{ requests, answers uint32 }

// A domainState is what the tracker knows of a registered domain.
type domainState struct {
	group group
	first *hostState // one of its hosts, for the domain's name
}

// name returns the domain.
func (d *domainState) name(t *tracker) string {
	if d.first.named() {
		return SiteOf(d.first.extra.name)
	}
	return t.origin.Host(d.first.number).Site
}

// SiteOf returns the registered domain of a name, or the name itself if it has none.
func SiteOf(name string) string {
	d, err := publicsuffix.EffectiveTLDPlusOne(name)
	if _, notIP := netip.ParseAddr(name); err != nil || notIP == nil {
		return name
	}
	return d
}

// An addrState is what the tracker knows of a loopback address. The lock of its shard guards everything but the group.
type addrState struct {
	group    group
	conns    connRefs
	maxConns int32
	opened   uint32
	addr     [4]byte
}

// name returns the host's name.
func (h *hostState) name(t *tracker) string {
	switch {
	case h.named():
		return h.extra.name
	case h.number == overflowNumber:
		return "(others)"
	}
	return t.origin.Host(h.number).Name
}

// url returns the request's URL. A long one is shortened (keptTarget).
func (b *requestInfo) url(t *tracker) string { return b.with(t, b.path) }

// with returns the URL of a target on the request's host.
func (b *requestInfo) with(t *tracker, target string) string {
	host := b.host.name(t)
	if b.port != 0 {
		host += ":" + strconv.Itoa(int(b.port))
	}
	return urlOf(b.secure, host, target)
}

func urlOf(secure bool, host, target string) string {
	if secure {
		return "https://" + host + target
	}
	return "http://" + host + target
}

// url is that of requestInfo, or what the client asked for, if that is no URL of the host.
func (r *request) url(t *tracker) string {
	if r.asked != "" {
		return keptTarget(r.asked)
	}
	return r.requestInfo.url(t)
}

// connRefs is a set of connections. Most sets have one.
type connRefs struct {
	one  *conn
	more map[*conn]struct{} // all connections, if there were ever two at once
}

func (s *connRefs) len() int {
	if s.more != nil {
		return len(s.more)
	}
	if s.one != nil {
		return 1
	}
	return 0
}

func (s *connRefs) add(c *conn) {
	switch {
	case s.more != nil:
		s.more[c] = struct{}{}
	case s.one == nil || s.one == c:
		s.one = c
	default:
		s.more = map[*conn]struct{}{s.one: {}, c: {}}
		s.one = nil
	}
}

func (s *connRefs) del(c *conn) {
	switch {
	case s.more != nil:
		if delete(s.more, c); len(s.more) == 0 {
			s.more = nil
		}
	case s.one == c:
		s.one = nil
	}
}

// askAlive is the largest set whose connections the kernel is asked about, one by one.
const askAlive = 64

// alive counts the connections that the client has not closed. It asks the kernel, because a connection's goroutine
// learns of the end some time later. If there are more than askAlive connections, it counts all of them.
func (s *connRefs) alive() int {
	n := s.len()
	if n > askAlive {
		return n
	}
	if s.one != nil {
		if s.one.isGone() {
			return 0
		}
		return 1
	}
	for c := range s.more {
		if c.isGone() {
			n--
		}
	}
	return n
}

// countStatus counts a response by its status.
func (h *hostState) countStatus(status int) {
	code := uint16(status)
	for i := range h.codes {
		if h.counts[i] == 0 {
			h.codes[i] = code
		}
		if h.codes[i] == code {
			h.counts[i]++
			return
		}
	}
	m := h.more()
	if m.status == nil {
		m.status = map[uint16]uint32{}
	}
	m.status[code]++
}

// eachStatus calls f for every status and its count.
func (h *hostState) eachStatus(f func(status int, n int64)) {
	for i, n := range h.counts {
		if n > 0 {
			f(int(h.codes[i]), int64(n))
		}
	}
	if h.extra != nil {
		for code, n := range h.extra.status {
			f(int(code), int64(n))
		}
	}
}

// A mark is what the tracker knows of a page.
type mark uint8

const (
	unasked       mark = iota
	asked              // requested, but never answered in full
	answered           // answered in full once
	answeredAgain      // answered in full more than once
)

// A host's marks take two bits each. Those of its first rowPages pages are in a row; those of further pages are in
// pieces, which exist only where needed.
const (
	rowPages   = 1024
	piecePages = 256
)

// markAt returns the byte that holds a page's mark, and the shift in it. pages is the number of the host's pages. If
// there is no byte for the page, markAt creates it if grow is set, and otherwise returns nil.
func (h *hostState) markAt(page, pages int64, grow bool) (*byte, uint) {
	shift := uint(page%4) * 2
	if page < rowPages {
		if i := int(page / 4); i < len(h.row) {
			return &h.row[i], shift
		}
		if !grow {
			return nil, 0
		}
		row := make([]byte, (min(max(pages, page+1), rowPages)+3)/4)
		copy(row, h.row)
		h.row = row
		return &h.row[page/4], shift
	}
	if !grow && h.extra == nil {
		return nil, 0
	}
	m, n := h.more(), page/piecePages
	p := m.pieces[n]
	if p == nil {
		if !grow {
			return nil, 0
		}
		if m.pieces == nil {
			m.pieces = map[int64]*[piecePages / 4]byte{}
		}
		p = new([piecePages / 4]byte)
		m.pieces[n] = p
	}
	return &p[page%piecePages/4], shift
}

func (h *hostState) mark(page int64) mark {
	b, shift := h.markAt(page, 0, false)
	if b == nil {
		return unasked
	}
	return mark(*b >> shift & 3)
}

func (h *hostState) setMark(page, pages int64, to mark) {
	b, shift := h.markAt(page, pages, true)
	*b = *b&^(3<<shift) | byte(to)<<shift
}

// eachMark calls f for every page with a mark.
func (h *hostState) eachMark(f func(page int64, m mark)) {
	some := func(first int64, bs []byte) {
		for i, b := range bs {
			for k := int64(0); b != 0; k, b = k+1, b>>2 {
				if b&3 != 0 {
					f(first+int64(i)*4+k, mark(b&3))
				}
			}
		}
	}
	some(0, h.row)
	if h.extra != nil {
		for n, p := range h.extra.pieces {
			some(n*piecePages, p[:])
		}
	}
}

// A urlSet counts, up to three, how often each URL was requested and answered. An entry has 60 bits of a hash and the
// two counts; 0 is an empty slot.
type urlSet struct {
	slots []uint64
	n     int
}

// find returns the slot of a hash, or the empty slot for it; -1 if the set has no slots.
func (s *urlSet) find(hash uint64) int {
	if len(s.slots) == 0 {
		return -1
	}
	i := int(hash>>32) & (len(s.slots) - 1)
	for s.slots[i] != 0 && s.slots[i]>>4 != hash>>4 {
		i = (i + 1) & (len(s.slots) - 1)
	}
	return i
}

// get returns how often the URL was requested and answered.
func (s *urlSet) get(hash uint64) (asked, answered int) {
	i := s.find(hash)
	if i < 0 {
		return 0, 0
	}
	return int(s.slots[i] >> 2 & 3), int(s.slots[i] & 3)
}

// add counts one more request, answered or not, and returns the counts before it.
func (s *urlSet) add(hash uint64, answered bool) (wasAsked, wasAnswered int) {
	if s.n >= len(s.slots)*3/4 {
		old := s.slots
		s.slots = make([]uint64, max(4, 2*len(old)))
		for _, e := range old {
			if e != 0 {
				s.slots[s.find(e)] = e
			}
		}
	}
	i := s.find(hash)
	e := s.slots[i]
	if e == 0 {
		s.n++
		e = hash &^ 15
	}
	wasAsked, wasAnswered = int(e>>2&3), int(e&3)
	if wasAsked < 3 {
		e += 1 << 2
	}
	if answered && wasAnswered < 3 {
		e++
	}
	s.slots[i] = e
	return wasAsked, wasAnswered
}
