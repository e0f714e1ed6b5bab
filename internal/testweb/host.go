package testweb

import "golang.org/x/net/publicsuffix"

// A hostState is what the tracker knows of a host. It is small, since there
// are millions: some 200 bytes, and what is seldom needed lies elsewhere. The
// lock of the group guards all that changes.
type hostState struct {
	number int64 // the Origin's, or below 0
	domain *domainState
	group  group // its own
	extra  *hostExtra

	conns     connRefs
	notBefore int64  // what the last Retry-After asks for
	robotsAt  int64  // end of the first answer to a GET of /robots.txt, 0 none
	row       []byte // marks of the first pages
	bytes     int64
	ended     uint32 // requests
	pages     uint32 // complete answers to a GET with a 2xx status, robots.txt not among them
	urls      uint32 // different ones
	fetched   uint32 // the Origin's pages that were answered
	opened    uint32 // connections
	counts    [2]uint32
	codes     [2]uint16 // the statuses that counts counts
	robots    uint16    // answers to /robots.txt
	maxConns  uint16
}

// The numbers of the hosts that are not the Origin's, and of what stands for
// those beyond Config.MaxHosts.
const (
	noNumber   = -1
	restNumber = -2
)

// A hostExtra is what few of the Origin's hosts need.
type hostExtra struct {
	*namedHost // of a host that is not the Origin's
	twice      uint32
	aborted    uint32
	broken     uint32
	early      uint32 // requests before robots.txt was answered
	status     map[uint16]uint32
	pieces     map[int64]*[piecePages / 4]byte
	others     urlSet
}

// more is the host's extra state, made when it is first needed.
func (h *hostState) more() *hostExtra {
	if h.extra == nil {
		h.extra = new(hostExtra)
	}
	return h.extra
}

// named says whether the host is not the Origin's.
func (h *hostState) named() bool { return h.number == noNumber }

// site is the Site of a host that is one; nil for others.
func (h *hostState) site() *site {
	if h.named() {
		return h.extra.site
	}
	return nil
}

// A namedHost is what is known of a host with a name of its own.
type namedHost struct {
	name  string
	site  *site // nil for a host that is not served
	known map[uint64]urlCount
	names map[uint64]string // of the first Config.KeepURLs
}

// A urlCount counts the requests for a URL and the complete answers.
type urlCount struct{ requests, answers uint32 }

// A domainState is what the tracker knows of a registered domain.
type domainState struct {
	group group
	first *hostState // of its hosts the one that was asked first
}

// name is the domain.
func (d *domainState) name(t *tracker) string {
	if d.first.named() {
		return registered(d.first.extra.name)
	}
	return t.origin.Host(d.first.number).Site
}

// registered is the registered domain of a name, or the name if it has none.
func registered(name string) string {
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

// An addrState is what the tracker knows of a loopback address; its shard's
// lock guards all but the group.
type addrState struct {
	group    group
	conns    connRefs
	maxConns int32
	opened   uint32
	addr     [4]byte
}

// name is the host's name.
func (h *hostState) name(t *tracker) string {
	switch {
	case h.named():
		return h.extra.name
	case h.number == restNumber:
		return "(others)"
	}
	return t.origin.Host(h.number).Name
}

// url is the request's URL, as far as that is kept.
func (b *brief) url(t *tracker) string { return b.with(t, b.path) }

// with is the URL of a target on the request's host.
func (b *brief) with(t *tracker, target string) string {
	if b.secure {
		return "https://" + b.host.name(t) + target
	}
	return "http://" + b.host.name(t) + target
}

// connRefs is a set of connections, most often of one.
type connRefs struct {
	one  *conn
	more map[*conn]struct{} // all of them, when there were two at once
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

// askAlive is for how many connections the kernel is asked one by one.
const askAlive = 64

// alive counts the connections that the client has not closed. The kernel is
// asked: the goroutine of a connection learns of its end some time later. Of
// more than askAlive all count.
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

// countStatus counts an answer by its status.
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

// eachStatus calls f for every status.
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

// A mark is what has become of a page.
type mark uint8

const (
	unasked mark = iota
	asked        // and not answered in full
	answered
	answeredAgain
)

// A host's marks take two bits each: those of the first pages in a row, those
// of a large host's others in pieces.
const (
	rowPages   = 1024
	piecePages = 256
)

// markAt is the byte and the shift of a page's mark; pages is how many the host
// has. The byte is nil where nothing was noted near that page and grow is false.
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

// A urlSet counts, up to three, how often URLs were asked for and answered. An
// entry is a hash of 60 bits and two counts; none is 0.
type urlSet struct {
	slots []uint64
	n     int
}

// find is the slot of a hash, or the empty one for it; -1 without any.
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

// get is how often the URL was asked for and answered.
func (s *urlSet) get(hash uint64) (asked, answered int) {
	i := s.find(hash)
	if i < 0 {
		return 0, 0
	}
	return int(s.slots[i] >> 2 & 3), int(s.slots[i] & 3)
}

// add counts one more request, answered or not, and says what was before.
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
