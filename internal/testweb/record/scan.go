package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A scan collects the captures of all files. It needs about 100 bytes for each, which are freed when the index is
// built.
type scan struct {
	a       *Archive
	found   []found
	refs    []reference
	ips     []string // recorded IP address of each host
	addrs   map[string]netip.Addr
	used    map[netip.Addr]bool
	digests map[uint64]original // by hash of the payload digest
	ports   map[uint16]bool     // whether the port has HTTPS
	seeds   []string
	first   string // URL of the first page
}

// A found is a response or revisit record.
type found struct {
	key       uint64
	date      int64 // Unix time in ns
	own, body place
	host      int32
	ref       int32 // index in scan.refs; -1 for a response
	status    int16
	robots    bool
	cut       bool // the response is incomplete
}

// A reference is what a revisit record says about its original.
type reference struct {
	digest      uint64 // hash of the payload digest; 0: unknown
	notModified bool
	url         string // of the original; empty: unknown
	date        int64  // Unix time in ns; 0: unknown
}

// An original is the first response with a payload digest.
type original struct {
	at     place
	status int16
	cut    bool
}

// file scans one file.
func (s *scan) file(n int, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return unwrapPath(err)
	}
	s.a.files = append(s.a.files, f)
	info, err := f.Stat()
	switch {
	case err != nil:
		return unwrapPath(err)
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case info.Size() >= 1<<48:
		return fmt.Errorf("the file has %d bytes; at most %d can be served", info.Size(), int64(1<<48-1))
	}
	s.a.summary.Bytes += info.Size()
	rd := warc.NewReader(f)
	before := s.a.summary.Records
	var damage error
	for {
		rec, err := rd.Next()
		if err == nil {
			s.a.summary.Records++
			err = s.record(n, rd, rec)
		}
		switch {
		case err == nil:
			continue
		case err == io.EOF:
		case !errors.Is(err, warc.ErrDamaged):
			return err
		default:
			if damage == nil {
				damage = err
			}
			skipped, next := rd.Skip()
			s.damaged(name, err, skipped)
			if next == nil {
				continue
			}
			if next != io.EOF {
				return next
			}
		}
		break
	}
	if damage != nil && s.a.summary.Records == before {
		return fmt.Errorf("%w; no record of the file can be read", damage)
	}
	return nil
}

// unwrapPath removes the file name from an error, because the caller adds it.
func unwrapPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (s *scan) damaged(name string, err error, skipped int64) {
	s.a.summary.Damaged++
	s.a.summary.DamagedBytes += skipped
	if len(s.a.summary.Notes) < maxNotes {
		s.a.summary.Notes = append(s.a.summary.Notes, fmt.Sprintf("%s: %v", name, err))
	}
}

func (s *scan) skip(why string) { s.a.summary.Skipped[why]++ }

// record adds a response or revisit to the scan, and looks for seeds in metadata records.
func (s *scan) record(n int, rd *warc.Reader, rec *warc.Record) error {
	kind := rec.Type()
	switch kind {
	case "metadata":
		return s.metadata(rd, rec)
	case "response", "revisit", "resource":
	default:
		return rd.Finish()
	}
	l := locate(rec.URL())
	status, isHTTP, err := statusOf(rec)
	if err != nil {
		return err
	}
	if err := rd.Finish(); err != nil {
		return err
	}
	switch {
	case l.why != "":
		s.skip(l.why)
		return nil
	case kind == "resource", !isHTTP && (kind == "response" || rec.Size > 0):
		s.skip(NotHTTP)
		return nil
	case rec.Shared:
		s.skip(SharedMember)
		return nil
	case !s.serves(l.origin):
		s.skip(OtherPort)
		return nil
	case !s.reaches(l.host):
		s.skip(OtherAddr)
		return nil
	}
	f := found{key: keyOf(l.origin, l.target), date: dateOf(rec.Date()), own: placeOf(n, rec.Offset), ref: -1,
		host: s.host(l.host, rec.Header.Value("WARC-IP-Address")), status: status}
	if l.port != 0 {
		s.a.hosts[f.host].add(l.origin)
	}
	f.robots = f.key == keyOf(l.origin, "/robots.txt")
	f.cut = rec.Header.Value("WARC-Truncated") != "" || rec.Size > s.a.cfg.MaxResponse
	f.body = f.own
	digest := uint64(0)
	if d := rec.Header.Value("WARC-Payload-Digest"); d != "" {
		digest = xxhash.Sum64String(strings.ToUpper(d)) | 1
	}
	if kind == "revisit" {
		ref := reference{
			digest: digest, url: strings.Trim(rec.Header.Value("WARC-Refers-To-Target-URI"), "<>"),
			date: dateOf(rec.Header.Value("WARC-Refers-To-Date")),
			notModified: status == 304 ||
				strings.HasSuffix(rec.Header.Value("WARC-Profile"), "server-not-modified"),
		}
		f.ref = int32(len(s.refs))
		s.refs = append(s.refs, ref)
	} else if _, known := s.digests[digest]; digest != 0 && !known {
		s.digests[digest] = original{f.own, status, f.cut}
	}
	s.found = append(s.found, f)
	if s.first == "" && status/100 == 2 && !f.robots && !f.cut {
		s.first = rec.URL()
	}
	return nil
}

// serves reports whether the port of an origin is served. It decides so at the first response on a port.
func (s *scan) serves(o origin) bool {
	if o.port == 0 {
		return true
	}
	secure, known := s.ports[o.port]
	switch {
	case known:
		return secure == o.secure
	case o.port == 53, len(s.a.ports) >= maxPorts: // port 53 is that of the name server
		return false
	}
	s.ports[o.port] = o.secure
	s.a.ports = append(s.a.ports, testweb.Port{Number: o.port, Secure: o.secure})
	return true
}

// reaches reports whether a host can be served: one with a name, or one of the first maxIPs whose names are addresses
// that one machine may have.
func (s *scan) reaches(host string) bool {
	addr, err := netip.ParseAddr(host)
	if _, known := s.a.names[host]; known || err != nil || addr.IsLoopback() {
		return true
	}
	if len(s.a.ips) >= maxIPs || !addr.IsGlobalUnicast() && !addr.IsLinkLocalUnicast() {
		return false
	}
	s.a.ips = append(s.a.ips, addr)
	return true
}

// add adds an origin to the host, if it is new.
func (h *host) add(o origin) {
	if !slices.ContainsFunc(h.others, func(k otherPort) bool { return k.origin == o }) {
		h.others = append(h.others, otherPort{origin: o})
	}
}

// statusOf reads the status line at the beginning of a record's content.
func statusOf(rec *warc.Record) (status int16, ok bool, err error) {
	var line [40]byte
	n, err := io.ReadFull(rec, line[:min(rec.Size, int64(len(line)))])
	if err != nil && err != io.EOF {
		return 0, false, err
	}
	return parseStatus(line[:n])
}

// parseStatus parses "HTTP/x.y NNN". ok is false if the status is not a final one (below 200).
func parseStatus(line []byte) (status int16, ok bool, err error) {
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	i := bytes.IndexByte(line, ' ')
	if !bytes.HasPrefix(line, []byte("HTTP/")) || i < 0 {
		return 0, false, nil
	}
	rest := bytes.TrimLeft(line[i:], " ")
	if len(rest) < 3 {
		return 0, false, nil
	}
	for _, c := range rest[:3] {
		if c < '0' || c > '9' {
			return 0, false, nil
		}
		status = status*10 + int16(c-'0')
	}
	return status, status >= 200, nil
}

// metadata adds the record's URL to the seeds, if the record names a seed and no link that led to the URL.
func (s *scan) metadata(rd *warc.Reader, rec *warc.Record) error {
	u := rec.URL()
	if len(s.seeds) < maxSeeds && strings.HasPrefix(u, "http") &&
		rec.Header.Value("Content-Type") == "application/warc-fields" {
		b, err := io.ReadAll(io.LimitReader(rec, 64<<10)) // outlinks may follow
		if err != nil {
			return err
		}
		begun, led := false, false
		for line := range bytes.Lines(b) {
			name, value, _ := bytes.Cut(line, []byte{':'})
			switch string(name) {
			case "via", "hopsFromSeed":
				led = led || len(bytes.TrimSpace(value)) > 0
			case "seed", "sourceTag":
				begun = true
			}
		}
		if begun && !led {
			s.seeds = append(s.seeds, u)
		}
	}
	return rd.Finish()
}

// host returns the number of a host. It adds the host if it is new, and remembers its first IP address.
func (s *scan) host(name, ip string) int32 {
	n, ok := s.a.names[name]
	if !ok {
		n = int32(len(s.a.hosts))
		s.a.names[name] = n
		s.a.hosts = append(s.a.hosts, host{OriginHost: testweb.OriginHost{Name: name, Site: testweb.SiteOf(name)}})
		s.ips = append(s.ips, "")
	}
	if s.ips[n] == "" {
		s.ips[n] = ip
	}
	return n
}

// finish finds the originals of the revisits, chooses one capture for each URL, and builds the index.
func (s *scan) finish() {
	a := s.a
	byURL := func(x, y found) int { return cmp.Or(cmp.Compare(x.host, y.host), cmp.Compare(x.key, y.key)) }
	slices.SortStableFunc(s.found, func(x, y found) int { return cmp.Or(byURL(x, y), cmp.Compare(x.date, y.date)) })
	all := s.found
	chosen := make([]found, 0, len(all))
	at := int64(0)
	if !a.cfg.At.IsZero() {
		at = a.cfg.At.UnixNano()
	}
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && byURL(all[i], all[j]) == 0 {
			j++
		}
		if f, ok := s.choose(all[i:j], at); ok {
			chosen = append(chosen, f)
		}
		i = j
	}
	s.found, s.digests = nil, nil
	isPage := func(f found) bool { return f.status/100 == 2 && !f.robots && !f.cut }
	slices.SortFunc(chosen, func(x, y found) int {
		px, py := 1, 1
		if isPage(x) {
			px = 0
		}
		if isPage(y) {
			py = 0
		}
		return cmp.Or(cmp.Compare(x.host, y.host), cmp.Compare(px, py), cmp.Compare(x.key, y.key))
	})
	a.index = make([]capture, len(chosen))
	for i, f := range chosen {
		a.index[i] = capture{f.key, f.own, f.body}
		h := &a.hosts[f.host]
		if h.to == 0 {
			h.from, h.rest = uint32(i), uint32(i)
		}
		h.to = uint32(i + 1)
		if isPage(f) {
			h.rest = uint32(i + 1)
			h.Pages++
			a.summary.Pages++
		}
		if f.ref >= 0 {
			a.summary.Revisits++
		}
	}
	a.summary.URLs = int64(len(chosen))
	s.dropEmptyHosts()
	a.summary.Hosts = int64(len(a.hosts))
	for n := range a.hosts {
		addr, err := netip.ParseAddr(a.hosts[n].Name)
		if err != nil {
			continue
		}
		if s.ips[n] = addr.String(); addr.IsLoopback() { // clients go there, whatever the name server says
			s.addrs[s.ips[n]], s.used[addr] = addr, true
		}
	}
	for n := range a.hosts {
		h := &a.hosts[n]
		what := s.ips[n]
		if what == "" {
			h.Addr = testweb.AddrOf(h.Name, s.used)
			s.used[h.Addr] = true
			continue
		}
		addr, ok := s.addrs[what]
		if !ok {
			addr = testweb.AddrOf(what, s.used)
			s.addrs[what], s.used[addr] = addr, true
		}
		h.Addr = addr
	}
	if len(s.seeds) == 0 && s.first != "" {
		s.seeds = []string{s.first}
	}
	for _, u := range s.seeds {
		l := locate(u)
		if n, ok := a.names[l.host]; ok && !slices.Contains(a.seeds, u) {
			if _, _, ok := a.find(int64(n), l.origin, l.target); ok {
				a.seeds = append(a.seeds, u)
			}
		}
	}
}

// dropEmptyHosts removes the hosts without a response that can be served.
func (s *scan) dropEmptyHosts() {
	a := s.a
	kept, ips := a.hosts[:0], s.ips[:0]
	for n, h := range a.hosts {
		if h.to == 0 {
			delete(a.names, h.Name)
			continue
		}
		a.names[h.Name] = int32(len(kept))
		kept, ips = append(kept, h), append(ips, s.ips[n])
	}
	a.hosts, s.ips = kept, ips
	a.ips = slices.DeleteFunc(a.ips, func(ip netip.Addr) bool {
		_, ok := a.names[ip.String()]
		return !ok
	})
}

// choose returns the capture to be served among those of one URL, which are sorted by date. at is the chosen time, or 0
// for the latest. ok is false if none can be served.
func (s *scan) choose(same []found, at int64) (found, bool) {
	best := -1
	for i := range same {
		if !s.resolve(same, i) {
			s.skip(NoOriginal)
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		s.skip(Older)
		if at == 0 || same[best].date < at {
			best = i
		}
	}
	if best < 0 {
		return found{}, false
	}
	return same[best], true
}

// resolve finds the record with the body of same[i]. It reports whether there is one.
func (s *scan) resolve(same []found, i int) bool {
	f := &same[i]
	if f.ref < 0 {
		return true
	}
	ref := s.refs[f.ref]
	var o found
	ok := false
	if ref.url != "" {
		if l := locate(ref.url); l.why == "" {
			o, ok = s.captureOf(l, ref.date)
		}
	}
	if !ok && ref.digest != 0 {
		d, known := s.digests[ref.digest]
		o, ok = found{own: d.at, status: d.status, cut: d.cut}, known
	}
	if !ok && ref.notModified {
		for j := i - 1; j >= 0 && !ok; j-- {
			o, ok = same[j], same[j].ref < 0
		}
	}
	if !ok {
		return false
	}
	f.body, f.cut = o.own, o.cut
	if ref.notModified || f.status == 0 {
		f.body, f.status = o.own|alsoHead, o.status
	}
	return true
}

// captureOf returns the response record of a URL with that date in seconds, or the first one if date is 0.
func (s *scan) captureOf(l location, date int64) (found, bool) {
	n, ok := s.a.names[l.host]
	if !ok {
		return found{}, false
	}
	key := keyOf(l.origin, l.target)
	i, _ := slices.BinarySearchFunc(s.found, key, func(f found, key uint64) int {
		return cmp.Or(cmp.Compare(f.host, n), cmp.Compare(f.key, key))
	})
	for ; i < len(s.found) && s.found[i].host == n && s.found[i].key == key; i++ {
		if f := s.found[i]; f.ref < 0 && (date == 0 || f.date/1e9 == date/1e9) {
			return f, true
		}
	}
	return found{}, false
}

// dateOf parses a WARC-Date (ISO 28500, 5.4), or the 14 digits of WARC/0.17, and returns the Unix time in ns; 0 if it
// is invalid.
func dateOf(s string) int64 {
	for _, layout := range [...]string{
		time.RFC3339Nano, "20060102150405", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixNano()
		}
	}
	return 0
}
