package assignment

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/store/frames"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Limits of an entry.
const (
	// MaxHosts bounds the hosts of one entry, and MaxHostBytes the sum of their lengths and one more for each.
	MaxHosts     = 4096
	MaxHostBytes = 512 << 10
	// MaxMembers bounds the members of a roster, and also its lost members.
	MaxMembers = 1024
	// MaxEntry bounds the bytes of an entry.
	MaxEntry = maxText + 32
	maxText  = 800 << 10
	maxName  = 63
	maxAddr  = 255
	// MaxCapacity is the largest capacity of an agent.
	MaxCapacity = 1000
)

// ErrMalformed reports bytes that are not an entry.
var ErrMalformed = errors.New("malformed entry")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// An Entry is one element of the stream. It has either Shares or a Roster.
type Entry struct {
	// Number is 1 for the first entry.
	Number uint64
	Shares []Share
	Roster *Roster
}

// A Share is the hosts of one entry that are assigned to one agent.
type Share struct {
	Agent string
	// Hosts are canonical, distinct, and in ascending order. There is at least one.
	Hosts []string
}

// A State is the stage of an agent's membership, with the values of gossip.State.
type State uint8

// The states, in their order.
const (
	// Joining: the agent reads the stream and owns no hosts yet. It is in no roster.
	Joining State = 1 + iota
	// Up: the agent owns hosts.
	Up
	// Leaving: the agent owns no hosts any more and sends the new owners what it knows of its hosts.
	Leaving
	// Gone: the agent has left for good. It is in no roster.
	Gone
)

// A Member describes an agent.
type Member struct {
	Name string
	// Instance is a random number made with the crawl directory. Another instance with the same name has
	// none of this one's data.
	Instance [16]byte
	// Boot counts the starts of the instance, from 1.
	Boot uint64
	// Capacity is the agent's share of the hosts relative to other agents: above 0, at most MaxCapacity.
	Capacity float64
	// Addr is the agent's call address, host:port.
	Addr  string
	State State
}

// A Roster says which agents own hosts. Only Members with the state Up do.
type Roster struct {
	// Term is the number of the roster's entry. Decode sets it. AppendTo ignores it.
	Term uint64
	// Members are the agents of the cluster, ordered by name. They are Up or Leaving.
	Members []Member
	// Lost are the agents that disappeared before they were Gone, and that have not returned. They are ordered
	// by name and instance. Another instance with the name of a lost agent does not bring it back.
	Lost []Member
	// Ended reports that the crawl is at its end. It is the last entry.
	Ended bool
}

// Member returns the member called name.
func (r *Roster) Member(name string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(r.Members, name,
		func(m Member, name string) int { return strings.Compare(m.Name, name) })
	if !ok {
		return Member{}, false
	}
	return r.Members[i], true
}

// Compare orders members by name and instance.
func (m Member) Compare(o Member) int {
	if c := strings.Compare(m.Name, o.Name); c != 0 {
		return c
	}
	return slices.Compare(m.Instance[:], o.Instance[:])
}

// Key returns the key of a host in tables of hosts. The hash is cryptographic: with a weaker one, a site could
// name a host that counts as another site's host, and the links to that one would wait for ever.
func Key(host string) link.Key {
	s := sha256.Sum256([]byte(host))
	return link.Key{Host: binary.BigEndian.Uint64(s[:]), Path: binary.BigEndian.Uint64(s[8:])}
}

// CheckHost returns an error unless host is a canonical host.
func CheckHost(host string) error {
	u, err := weburl.Parse("http://" + host + "/")
	if err != nil || u.Host() != host {
		return malformed("host %.64q", host)
	}
	return nil
}

// Check returns an error if a field is out of its bounds.
func (m Member) Check() error {
	switch {
	case m.Name == "" || len(m.Name) > maxName || strings.ContainsFunc(m.Name, notPrintable):
		return malformed("agent name %.80q", m.Name)
	case !(m.Capacity > 0 && m.Capacity <= MaxCapacity): // also refuses NaN
		return malformed("agent %s: capacity %v: more than 0, at most %d", m.Name, m.Capacity, MaxCapacity)
	case len(m.Addr) > maxAddr || strings.ContainsFunc(m.Addr, notPrintable):
		return malformed("agent %s: address %.80q", m.Name, m.Addr)
	case m.State < Joining || m.State > Gone:
		return malformed("agent %s: state %d", m.Name, m.State)
	}
	return nil
}

// notPrintable reports whether r is no ASCII character, a control character or a space.
func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

// The encoder and the decoder are made before any test begins: a channel that is made in a bubble of package
// synctest cannot be used outside of it, and an encoder makes one at its first use.
var (
	packer = func() *zstd.Encoder {
		// With the next level, a host takes 4 % less, and the encoder five times as much memory.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic(err) // the options are constants
		}
		e.EncodeAll([]byte("a"), nil)
		return e
	}()
	unpacker = func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxText),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	}()
)

const (
	kindShares = 'H'
	kindRoster = 'R'
	// packFrom is the smallest text that is compressed.
	packFrom = 64
)

// AppendTo appends e's encoding to dst. e must keep the rules of its fields, and the limits.
func (e *Entry) AppendTo(dst []byte) []byte {
	kind := byte(kindShares)
	if e.Roster != nil {
		kind = kindRoster
	}
	text := e.AppendText(nil)
	if len(text) > maxText {
		panic(fmt.Sprintf("assignment: the text of entry %d has %d bytes", e.Number, len(text)))
	}
	head := binary.AppendUvarint([]byte{kind}, e.Number)
	head = binary.AppendUvarint(head, uint64(len(text)))
	if len(text) >= packFrom {
		if packed := packer.EncodeAll(text, nil); len(packed) < len(text) {
			text = packed
		}
	}
	at := len(dst)
	dst = append(append(append(dst, make([]byte, frames.Head)...), head...), text...)
	frames.Seal(dst[at:])
	return dst
}

// AppendText appends the text of e, which is the same in all versions. It is not compressed.
func (e *Entry) AppendText(dst []byte) []byte {
	if e.Roster != nil {
		return e.Roster.appendTo(dst)
	}
	for _, s := range e.Shares {
		dst = append(append(dst, s.Agent...), '\n')
		for _, h := range s.Hosts {
			dst = append(append(dst, h...), '\n')
		}
		dst = append(dst, '\n')
	}
	return dst
}

// MaxHead is how many bytes of an entry Size needs at most.
const MaxHead = frames.Head

// Size returns the number of bytes of the entry at the beginning of src, or 0 if src has no such beginning.
func Size(src []byte) int {
	if len(src) < frames.Head || frames.Size(src) > MaxEntry {
		return 0
	}
	return int(frames.Size(src))
}

// Decode reads the first entry of src and returns what follows it. It accepts any bytes: the error is an
// ErrMalformed. Strings of the entry share one array.
func Decode(src []byte) (e Entry, rest []byte, err error) {
	end := Size(src)
	if end == 0 || end > len(src) {
		return e, nil, malformed("%d bytes of %d", len(src), end)
	}
	payload, err := frames.Payload(src[:end])
	if err != nil {
		return e, nil, malformed("wrong checksum")
	}
	c := fields.Read(payload)
	var kind byte
	var length int
	fields.Byte(c, &kind)
	fields.Uint(c, &e.Number)
	fields.Uint(c, &length)
	c.Check(length >= 0 && length <= maxText)
	switch {
	case !c.Ok():
		return e, nil, malformed("cut short")
	case e.Number == 0:
		return e, nil, malformed("number 0")
	case c.Left() > length:
		return e, nil, malformed("a text of %d bytes in %d", length, c.Left())
	}
	text := c.Rest()
	if len(text) < length {
		text, err = unpacker.DecodeAll(text, make([]byte, 0, length))
		if err != nil || len(text) != length {
			return e, nil, malformed("entry %d: %d bytes of text, not %d: %v", e.Number, len(text), length, err)
		}
	}
	switch kind {
	case kindShares:
		e.Shares, err = decodeShares(string(text))
	case kindRoster:
		e.Roster, err = decodeRoster(text, e.Number)
	default:
		err = malformed("kind %q", kind)
	}
	if err != nil {
		return Entry{}, nil, fmt.Errorf("entry %d: %w", e.Number, err)
	}
	return e, src[end:], nil
}

func decodeShares(text string) (shares []Share, err error) {
	total, bytes := 0, 0
	for text != "" {
		block, rest, ok := strings.Cut(text, "\n\n")
		if !ok {
			return nil, malformed("a share without end")
		}
		text = rest
		agent, list, ok := strings.Cut(block, "\n")
		switch {
		case !ok:
			return nil, malformed("a share without hosts")
		case agent == "" || len(agent) > maxName || strings.ContainsFunc(agent, notPrintable):
			return nil, malformed("agent name %.80q", agent)
		case len(shares) > 0 && shares[len(shares)-1].Agent >= agent:
			return nil, malformed("agent %q after %q", agent, shares[len(shares)-1].Agent)
		}
		total, bytes = total+strings.Count(list, "\n")+1, bytes+len(list)+1
		if total > MaxHosts || bytes > MaxHostBytes {
			return nil, malformed("more than %d hosts, or more than %d bytes of them", MaxHosts, MaxHostBytes)
		}
		hosts := strings.Split(list, "\n")
		for i, h := range hosts {
			if err := CheckHost(h); err != nil {
				return nil, err
			}
			if i > 0 && hosts[i-1] >= h {
				return nil, malformed("host %q after %q", h, hosts[i-1])
			}
		}
		shares = append(shares, Share{agent, hosts})
	}
	if len(shares) == 0 {
		return nil, malformed("no shares")
	}
	return shares, nil
}
