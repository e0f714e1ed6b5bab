package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/fields"
)

// A State is the stage of an agent's membership.
type State uint8

// The states, in their order.
const (
	// Joining: a member that owns no hosts yet.
	Joining State = 1 + iota
	// Up: the agent owns hosts and crawls them.
	Up
	// Leaving: the agent hands its hosts to others.
	Leaving
	// Gone: the agent has handed everything over. It is the last announcement.
	Gone
)

func (s State) String() string {
	switch s {
	case Joining:
		return "joining"
	case Up:
		return "up"
	case Leaving:
		return "leaving"
	case Gone:
		return "gone"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// An Agent is what an agent announces about itself.
type Agent struct {
	Name     string
	Capacity float64
	// Instance is a random number made with the crawl directory. Another instance with the
	// same name has none of this one's data.
	Instance [16]byte
	// Boot tells the starts of the instance apart: a later one has a larger number. The first is 1.
	Boot uint64
	// Addr is the call address, host:port.
	Addr  string
	State State
}

// A View is the set of agents that an agent believes alive. It never changes, so it is safe for
// concurrent use.
type View struct {
	// Seq grows with each view of this agent. The numbers of two agents are unrelated.
	Seq uint64
	// Agents are the living agents, with this one, sorted by name.
	Agents []Agent
	// Lost are the agents that disappeared without announcing Gone and have not come back,
	// sorted by name and instance. Another instance with the name of a lost agent does not
	// bring it back.
	Lost []Agent
	// Ended are the last lives of the agents that have ended in order, and have not come back: they have announced
	// Gone, or have said before that they will (Member.Leaves). Sorted by instance. At most 1024 are remembered.
	Ended []Ending
}

// Agent returns the living agent called name.
func (v *View) Agent(name string) (Agent, bool) {
	i, ok := slices.BinarySearchFunc(v.Agents, name,
		func(a Agent, name string) int { return strings.Compare(a.Name, name) })
	if !ok {
		return Agent{}, false
	}
	return v.Agents[i], true
}

// Digest is equal for two agents if and only if they see the same agents in the same states.
func (v *View) Digest() uint64 {
	h := fnv.New64a()
	var b []byte
	for _, a := range v.Agents {
		b = binary.AppendUvarint(b[:0], uint64(len(a.Name)))
		b = append(b, a.Name...)
		b = appendMeta(b, a)
		h.Write(b)
	}
	return h.Sum64()
}

func order(a, b Agent) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return slices.Compare(a.Instance[:], b.Instance[:])
}

const (
	metaVersion = 1
	maxAddr     = 255
	maxName     = 63
	maxCapacity = 1000 // as in package placement: with more, no agent could divide the hosts
)

var errMeta = errors.New("malformed announcement")

// check returns an error for values that no agent announces.
func (a Agent) check() error {
	switch {
	case a.Name == "" || len(a.Name) > maxName:
		return fmt.Errorf("agent name %.80q: 1 to %d octets", a.Name, maxName)
	case !(a.Capacity > 0 && a.Capacity <= maxCapacity): // also refuses NaN
		return fmt.Errorf("agent %q: capacity %v: more than 0, at most %v", a.Name, a.Capacity, maxCapacity)
	case a.State < Joining || a.State > Gone:
		return fmt.Errorf("agent %q: state %d", a.Name, a.State)
	case len(a.Addr) > maxAddr:
		return fmt.Errorf("agent %q: an address of %d octets", a.Name, len(a.Addr))
	}
	host, port, err := net.SplitHostPort(a.Addr)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
		return fmt.Errorf("agent %q: address %q is not host:port", a.Name, a.Addr)
	}
	return nil
}

// appendMeta appends everything but the name, which gossip carries itself. It is at most 293
// octets; memberlist allows 512.
func appendMeta(b []byte, a Agent) []byte {
	c := fields.Write(b)
	a.meta(c)
	return c.Written()
}

func (a *Agent) meta(c *fields.Codec) {
	c.Tag(metaVersion)
	fields.Byte(c, &a.State)
	c.Fixed(a.Instance[:])
	fields.Uint(c, &a.Boot)
	capacity := math.Float64bits(a.Capacity)
	if fields.Fixed64(c, &capacity); c.Reads() {
		a.Capacity = math.Float64frombits(capacity)
	}
	fields.Text(c, &a.Addr, math.MaxInt)
}

// parseMeta reads another agent's announcement. It accepts any bytes.
func parseMeta(name string, b []byte) (a Agent, err error) {
	c := fields.Read(b)
	if a.meta(c); !c.Whole() {
		return Agent{}, fmt.Errorf("agent %.80q: %w", name, errMeta)
	}
	a.Name = name
	if err := a.check(); err != nil {
		return a, fmt.Errorf("%w: %w", errMeta, err)
	}
	return a, nil
}
