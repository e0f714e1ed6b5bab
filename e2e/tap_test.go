//go:build linux

package e2e

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A tap reads every packet on a wire, and reassembles the streams.
type tap struct {
	mu      sync.Mutex
	streams []*stream
	last    map[way]*stream  // of connections with the same ports
	packets map[way][][]byte // the contents of UDP packets
	other   [][]byte         // other packets, whole
	octets  int
}

// A way is one direction of a connection.
type way struct{ from, to netip.AddrPort }

// A stream is the data of one direction of a TCP connection.
type stream struct {
	way
	data  []byte
	first uint32
	next  uint32
	begun bool // with its first byte
	gaps  int
}

const (
	protoTCP = 6
	protoUDP = 17
)

// listen taps the wire from now on.
func (w *wire) listen() *tap {
	k := &tap{last: map[way]*stream{}, packets: map[way][][]byte{}}
	hear := k.hear
	w.heard.Store(&hear)
	return k
}

// hear handles an IPv4 packet.
func (k *tap) hear(packet []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.octets += len(packet)
	head := int(packet[0]&15) * 4
	length := min(int(binary.BigEndian.Uint16(packet[2:])), len(packet))
	fragment := binary.BigEndian.Uint16(packet[6:])&0x3fff != 0
	if head < 20 || length < head+8 || fragment || packet[9] != protoTCP && packet[9] != protoUDP {
		k.other = append(k.other, slices.Clone(packet))
		return
	}
	body := packet[head:length]
	end := func(addr, port []byte) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(addr)), binary.BigEndian.Uint16(port))
	}
	at := way{end(packet[12:16], body[0:2]), end(packet[16:20], body[2:4])}
	if packet[9] == protoUDP {
		k.packets[at] = append(k.packets[at], slices.Clone(body[8:]))
		return
	}
	off := 0
	if len(body) >= 20 {
		off = int(body[12]>>4) * 4
	}
	if off < 20 || off > len(body) {
		k.other = append(k.other, slices.Clone(packet))
		return
	}
	seq, data := binary.BigEndian.Uint32(body[4:]), body[off:]
	const syn = 1 << 1
	begins := body[13]&syn != 0
	if begins {
		seq++ // it counts as a byte
	}
	s := k.last[at]
	if s == nil || begins && seq != s.first {
		s = &stream{way: at, first: seq, next: seq, begun: begins}
		k.streams, k.last[at] = append(k.streams, s), s
	}
	switch ahead := int32(seq - s.next); {
	case len(data) == 0 || ahead+int32(len(data)) <= 0: // empty, or nothing new
	default:
		if ahead > 0 {
			s.gaps++
			ahead = 0
		}
		s.data = append(s.data, data[-ahead:]...)
		s.next = seq + uint32(len(data))
	}
}

// between calls f with all data between two places that ok accepts. what describes it for messages.
func (k *tap) between(ok func(from, to netip.Addr) bool, f func(what string, data []byte)) {
	for _, s := range k.streams {
		if ok(s.from.Addr(), s.to.Addr()) {
			f(fmt.Sprintf("TCP from %v to %v", s.from, s.to), s.data)
		}
	}
	for at, ps := range k.packets {
		if ok(at.from.Addr(), at.to.Addr()) {
			for _, p := range ps {
				f(fmt.Sprintf("UDP from %v to %v", at.from, at.to), p)
			}
		}
	}
	for _, p := range k.other {
		if ok(netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))) {
			f(fmt.Sprintf("a packet of protocol %d", p[9]), p)
		}
	}
}

// sealed returns why the data of one direction of a connection is not TLS 1.3 from its first byte:
// a hello in clear, and then encrypted records. It returns the hello.
func (s *stream) sealed() (hello []byte, err error) {
	if !s.begun || s.gaps > 0 {
		return nil, fmt.Errorf("not heard from its beginning, or with %d gaps", s.gaps)
	}
	const changeCipher, alert, handshake, data = 20, 21, 22, 23
	for rest, n := s.data, 0; len(rest) > 0; n++ {
		if len(rest) < 5 {
			return hello, nil // cut off
		}
		kind, size := rest[0], int(binary.BigEndian.Uint16(rest[3:]))
		if rest[1] != 3 || size > 1<<14+256 || kind < changeCipher || kind > data {
			return hello, fmt.Errorf("no record of TLS: %x", rest[:5])
		}
		body := rest[5:min(5+size, len(rest))]
		switch {
		case n == 0 && kind != handshake:
			return hello, fmt.Errorf("begins with a record of kind %d", kind)
		case kind == handshake:
			if len(hello) > 0 || len(body) == 0 || body[0] > 2 { // 1 is the client's hello, 2 the server's
				return hello, fmt.Errorf("record %d has handshake message %x in clear", n, body[:min(4, len(body))])
			}
			hello = body
		}
		rest = rest[min(5+size, len(rest)):]
	}
	return hello, nil
}

var errHello = errors.New("no hello of TLS")

// extension finds an extension in a hello.
func extension(hello []byte, want uint16) (ext []byte, ok bool, err error) {
	if len(hello) < 4+2+32+1 {
		return nil, false, errHello
	}
	client := hello[0] == 1
	rest := hello[4+2+32:]
	skip := func(width int) {
		n := 0
		for i := range width {
			if len(rest) <= i {
				err = errHello
				return
			}
			n = n<<8 | int(rest[i])
		}
		if len(rest) < width+n {
			err = errHello
			return
		}
		rest = rest[width+n:]
	}
	skip(1) // session
	if client {
		skip(2) // ciphers
		skip(1) // compressions
	} else if len(rest) >= 3 {
		rest = rest[3:]
	}
	if err != nil || len(rest) < 2 {
		return nil, false, errHello
	}
	for rest = rest[2:]; len(rest) >= 4; {
		n := int(binary.BigEndian.Uint16(rest[2:]))
		if len(rest) < 4+n {
			return nil, false, errHello
		}
		if binary.BigEndian.Uint16(rest) == want {
			return rest[4 : 4+n], true, nil
		}
		rest = rest[4+n:]
	}
	return nil, false, nil
}

// opened decrypts a packet of gossip with the cluster's key. The packet has the crawl's label,
// which is authenticated, a byte 1, a nonce and the encrypted part.
func opened(packet, key []byte) ([]byte, error) {
	if len(packet) < 2 || packet[0] != 244 || len(packet) < 2+int(packet[1])+1+12 {
		return nil, errors.New("no packet with a label")
	}
	label, rest := packet[2:2+packet[1]], packet[2+packet[1]:]
	if rest[0] != 1 {
		return nil, fmt.Errorf("sealed by version %d", rest[0])
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return seal.Open(nil, rest[1:13], rest[13:], label)
}

// The tap reads all traffic between agents with keys while they crawl, one joins and one is lost.
// It contains no name of a host, a path or an agent: everything is TLS 1.3, or packets encrypted
// with the cluster's key. The same tap reads the traffic with the web, and with the key the
// contents of the packets.
func TestStoryTapped(t *testing.T) {
	s := tell(t, plot{agents: 4, hosts: 40, pages: 20, delay: 40 * time.Millisecond, names: "unheard-of-"})
	rng := rand.New(rand.NewPCG(s.seed, 5))
	k := s.wire.listen()
	for _, a := range s.agents[:3] {
		a.start("--agents", "3")
	}
	s.await(0.3)
	s.agents[3].start()
	s.agents[3].says("hosts-taken", 0)
	s.await(0.5)
	key := loadKeys(t, filepath.Join(s.dir, "keys", s.agents[0].name)).Gossip()
	s.agents[rng.IntN(3)].lost()
	s.end(0)
	if s.judge() == 0 {
		t.Error("no URL was sent")
	}
	s.polite()

	// These words must not be in the traffic.
	kinds := map[string][]string{}
	for host, h := range s.web.Report().Hosts {
		if h.Requests > 0 {
			kinds["host"] = append(kinds["host"], host)
		}
	}
	for _, a := range s.agents {
		kinds["agent"] = append(kinds["agent"], a.name)
		if a.gone {
			continue
		}
		for u := range indexed(t, a.dir) {
			// A short word may occur by chance.
			if path := "/" + strings.SplitN(u, "/", 4)[3]; len(path) >= 8 && len(kinds["path"]) < 500 &&
				!strings.HasSuffix(u, "/robots.txt") {
				kinds["path"] = append(kinds["path"], path)
			}
		}
	}
	s.wire.heard.Store(nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	agents := map[netip.Addr]bool{}
	for _, p := range s.wire.places[1:] {
		agents[p.addr] = true
	}
	among := func(from, to netip.Addr) bool { return agents[from] && agents[to] }
	toWeb := func(from, to netip.Addr) bool { return agents[from] && !agents[to] }
	octets := 0
	k.between(among, func(what string, data []byte) {
		octets += len(data)
		for kind, names := range kinds {
			for _, name := range names {
				if i := bytes.Index(data, []byte(name)); i >= 0 {
					t.Fatalf("%s %q in %s: …%q…", kind, name, what, data[max(0, i-40):min(len(data), i+80)])
				}
			}
		}
	})

	connections, packets := 0, 0
	for _, st := range k.streams {
		if !among(st.from.Addr(), st.to.Addr()) || len(st.data) == 0 {
			continue
		}
		hello, err := st.sealed()
		if err != nil || len(hello) == 0 {
			t.Fatalf("TCP from %v to %v: %v", st.from, st.to, err)
		}
		versions, ok, err := extension(hello, 43) // supported_versions
		if err != nil || !ok {
			t.Fatalf("TCP from %v to %v: %v, no versions in %x", st.from, st.to, err, hello)
		}
		if connections++; hello[0] == 2 && !bytes.Equal(versions, []byte{3, 4}) ||
			hello[0] == 1 && !bytes.Equal(versions, []byte{2, 3, 4}) {
			t.Errorf("TCP from %v to %v: versions %x", st.from, st.to, versions)
		}
	}
	names := map[string]bool{}
	for at, ps := range k.packets {
		if !among(at.from.Addr(), at.to.Addr()) {
			continue
		}
		for _, p := range ps {
			packets++
			plain, err := opened(p, key)
			if err != nil {
				t.Fatalf("UDP from %v to %v: %v: %x", at.from, at.to, err, p)
			}
			for _, name := range kinds["agent"] {
				names[name] = names[name] || bytes.Contains(plain, []byte(name))
			}
		}
	}

	// The tap can read these.
	heard := map[string]map[string]bool{"host": {}, "path": {}}
	k.between(toWeb, func(_ string, data []byte) {
		for kind, found := range heard {
			for _, name := range kinds[kind] {
				if !found[name] && bytes.Contains(data, []byte(name)) {
					found[name] = true
				}
			}
		}
	})
	t.Logf("%d octets in all; among agents %d in %d directions of connections and %d packets; of %d hosts and %d "+
		"paths %d and %d heard on the way to the web; of %d agents %d in packets that were opened",
		k.octets, octets, connections, packets, len(kinds["host"]), len(kinds["path"]), len(heard["host"]),
		len(heard["path"]), len(kinds["agent"]), len(names))
	if len(kinds["path"]) < 50 || len(heard["host"]) < len(kinds["host"])*9/10 ||
		len(heard["path"]) < len(kinds["path"])*9/10 {
		t.Error("the tap does not hear what is said to the web")
	}
	for _, name := range kinds["agent"] {
		if !names[name] {
			t.Errorf("no packet says %s", name)
		}
	}
	if connections < 12 || packets < 50 || octets < 100_000 {
		t.Error("the agents have said too little to each other")
	}
}

// The tap's check detects data that is not encrypted.
func TestTapJudge(t *testing.T) {
	record := func(kind byte, body ...byte) []byte {
		return append([]byte{kind, 3, 3, byte(len(body) >> 8), byte(len(body))}, body...)
	}
	hello := append([]byte{2, 0, 0, 0, 3, 3}, make([]byte, 32+1+3)...)
	hello = append(hello, 0, 6, 0, 43, 0, 2, 3, 4)
	good := slices.Concat(record(22, hello...), record(20, 1), record(23, []byte("sealed")...))
	for _, c := range []struct {
		name string
		s    stream
		ok   bool
	}{
		{"sealed", stream{begun: true, data: good}, true},
		{"sealed, and cut off", stream{begun: true, data: good[:len(good)-3]}, true},
		{"plain", stream{begun: true, data: []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}, false},
		{"plain in the end", stream{begun: true, data: slices.Concat(good, []byte("GET / HTTP/1.1\r\n"))}, false},
		{"a certificate in clear", stream{begun: true,
			data: slices.Concat(record(22, hello...), record(22, 11, 0, 0, 1, 1))}, false},
		{"no hello", stream{begun: true, data: record(23, 1, 2, 3)}, false},
		{"heard in part", stream{data: good}, false},
		{"with a gap", stream{begun: true, gaps: 1, data: good}, false},
	} {
		if _, err := c.s.sealed(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if v, ok, err := extension(hello, 43); !ok || err != nil || !bytes.Equal(v, []byte{3, 4}) {
		t.Errorf("versions %x, %v, %v", v, ok, err)
	}
	if _, err := opened([]byte("\xf4\x01xunheard-of-1 says something"), make([]byte, 32)); err == nil {
		t.Error("a plain packet was opened")
	}
}
