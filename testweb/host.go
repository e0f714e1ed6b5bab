package testweb

import "sync"

// A hostState is what the tracker knows of a host: some 300 bytes for one of
// the Origin's that was asked for a few pages.
type hostState struct {
	number int64      // the Origin's, or -1
	named  *namedHost // of a host that is not the Origin's
	group  group      // its own
	domain *domainState

	mu       sync.Mutex // guards what follows
	conns    connRefs
	robotsAt int64 // end of the first answer to /robots.txt, 0 none
	bytes    int64
	ended    uint32 // requests
	pages    uint32 // complete answers with a 2xx status, robots.txt not among them
	urls     uint32 // different ones
	fetched  uint32 // the Origin's pages that were answered, and of these those that were again
	twice    uint32
	aborted  uint32
	broken   uint32
	robots   uint32
	early    uint32 // before robots.txt was answered
	opened   uint32 // connections
	maxConns uint16
	rest     bool // stands for all hosts beyond Config.Hosts
	status   statusCounts
	marks    pageMarks
	others   urlSet
}

// A namedHost is what is known of a host with a name of its own.
type namedHost struct {
	name  string
	site  *site // nil for a host that is not served
	urls  map[uint64]urlCount
	names map[uint64]string // of the first Config.KeepURLs
}

// A urlCount counts the requests for a URL and the complete answers.
type urlCount struct{ requests, answers uint32 }

// A domainState is what the tracker knows of a registered domain.
type domainState struct {
	group group
	name  string
}

// An addrState is what the tracker knows of a loopback address; its shard's
// lock guards all but the group.
type addrState struct {
	group    group
	conns    connRefs
	maxConns int32
	opened   uint32
}

// name is the host's name.
func (h *hostState) name(t *tracker) string {
	switch {
	case h.named != nil:
		return h.named.name
	case h.rest:
		return "(others)"
	}
	return t.origin.Host(h.number).Name
}

// url is the request's URL.
func (b *brief) url(t *tracker) string {
	if b.secure {
		return "https://" + b.host.name(t) + b.path
	}
	return "http://" + b.host.name(t) + b.path
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

// statusCounts counts answers by status, the first few without a map.
type statusCounts struct {
	codes  [3]uint16
	counts [3]uint32
	more   map[uint16]uint32
}

func (s *statusCounts) add(status int) {
	code := uint16(status)
	for i := range s.codes {
		if s.counts[i] == 0 {
			s.codes[i] = code
		}
		if s.codes[i] == code {
			s.counts[i]++
			return
		}
	}
	if s.more == nil {
		s.more = map[uint16]uint32{}
	}
	s.more[code]++
}

// each calls f for every status.
func (s *statusCounts) each(f func(status int, n int64)) {
	for i, n := range s.counts {
		if n > 0 {
			f(int(s.codes[i]), int64(n))
		}
	}
	for code, n := range s.more {
		f(int(code), int64(n))
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

// pageMarks are the marks of a host's pages, two bits each: those of the first
// pages in a row, those of a large host's others in pieces.
type pageMarks struct {
	row    []byte
	pieces map[int64]*[piecePages / 4]byte
}

const (
	rowPages   = 1024
	piecePages = 256
)

// at is the byte and the shift of a page; pages is how many the host has. The
// byte is nil where nothing was noted near that page and grow is false.
func (m *pageMarks) at(page, pages int64, grow bool) (*byte, uint) {
	shift := uint(page%4) * 2
	if page < rowPages {
		if i := int(page / 4); i < len(m.row) {
			return &m.row[i], shift
		}
		if !grow {
			return nil, 0
		}
		row := make([]byte, min(max(pages, page+1), rowPages)/4+1)
		copy(row, m.row)
		m.row = row
		return &m.row[page/4], shift
	}
	n := page / piecePages
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

func (m *pageMarks) get(page int64) mark {
	b, shift := m.at(page, 0, false)
	if b == nil {
		return unasked
	}
	return mark(*b >> shift & 3)
}

func (m *pageMarks) set(page, pages int64, to mark) {
	b, shift := m.at(page, pages, true)
	*b = *b&^(3<<shift) | byte(to)<<shift
}

// each calls f for every page with a mark.
func (m *pageMarks) each(f func(page int64, m mark)) {
	some := func(first int64, bs []byte) {
		for i, b := range bs {
			for k := int64(0); b != 0; k, b = k+1, b>>2 {
				if b&3 != 0 {
					f(first+int64(i)*4+k, mark(b&3))
				}
			}
		}
	}
	some(0, m.row)
	for n, p := range m.pieces {
		some(n*piecePages, p[:])
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
