package rpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Bounds of what one call may carry.
const (
	// MaxData bounds the octets of links, records or keys in one message, and
	// maxMessage the message, decompressed.
	MaxData    = 1 << 20
	maxMessage = MaxData + 64<<10
	// MaxHops is how often a batch of links may be passed on: views that
	// disagree are no reason to send links in circles.
	MaxHops = 3
	// MaxClaim bounds the hosts in one Claim.
	MaxClaim    = 4096
	maxHost     = 255 + 2 // of an IPv6 address with brackets, or 253 of a name
	maxAddress  = 255
	maxAgents   = 4096
	maxSettings = 64
	maxSetting  = 256 // octets of a name or a value
	maxReason   = 64
	maxWant     = 1 << 20
	maxPages    = 1 << 60 // of an agent
	keyLen      = 8
	maxCapacity = 1e6
)

// ErrMalformed is a message that does not mean anything.
var ErrMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// An ID is 128 random bits: of a crawl, or of an agent's instance.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// An Agent is what one agent says of itself, or of another.
type Agent struct {
	Name     string
	Instance ID
	// Boot counts the starts of the instance.
	Boot     uint64
	Capacity float64
	// Addr is host:port, where it listens.
	Addr string
	// State is package member's.
	State uint8
}

// A Caller is who calls. Where there are keys its name is the certificate's.
type Caller struct {
	Name     string
	Instance ID
	Boot     uint64
	// Crawl is zero for one that does not belong to a crawl yet; it is heard
	// by Hello alone.
	Crawl ID
}

// header is the caller in one line: name, instance, boot, crawl.
func (c Caller) header() string {
	return c.Name + " " + c.Instance.String() + " " + strconv.FormatUint(c.Boot, 10) + " " + c.Crawl.String()
}

func parseCaller(s string) (c Caller, err error) {
	f := strings.Split(s, " ")
	if len(f) != 4 || len(s) > 256 {
		return c, malformed("caller %.64q", s)
	}
	if err := CheckName(f[0]); err != nil {
		return c, malformed("%v", err)
	}
	c.Name = f[0]
	if err := c.Instance.parse(f[1]); err != nil {
		return c, err
	}
	if c.Boot, err = strconv.ParseUint(f[2], 10, 64); err != nil {
		return c, malformed("boot %.64q", f[2])
	}
	return c, c.Crawl.parse(f[3])
}

// ParseID reads what String wrote.
func ParseID(s string) (id ID, err error) { err = id.parse(s); return id, err }

func (id *ID) parse(s string) error {
	if len(s) != 2*len(id) {
		return malformed("id %.64q", s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return malformed("id %.64q", s)
	}
	return nil
}

// Hello asks whether its agent may come.
type Hello struct {
	Agent Agent
	// Settings must be the same at all agents, such as the way hosts are
	// shared out; names and values are the asker's words.
	Settings map[string]string
}

// Welcome answers a Hello.
type Welcome struct {
	Agent Agent
	Crawl ID
	// Elapsed is how long the crawl has been running: a duration, as no two
	// machines' clocks are compared.
	Elapsed time.Duration
	// Agents are those of a crawl that goes on; none: it has not begun, as far as
	// the one that answers knows.
	Agents []Agent
}

// Links are encoded weburl.Links, one behind the other.
type Links struct {
	Count int
	Data  []byte
	// Hops is how many agents have passed them on; at most MaxHops.
	Hops int
}

// check decodes every link: what goes on from here is never looked at with
// suspicion again. Each is of host, if that is not empty.
func (l Links) check(host string) error {
	if len(l.Data) > MaxData {
		return fmt.Errorf("%w: %d octets of links", errTooLarge, len(l.Data))
	}
	if l.Hops > MaxHops {
		return malformed("%d hops", l.Hops)
	}
	n := 0
	for rest := l.Data; len(rest) > 0; n++ {
		link, used, err := weburl.PeekLink(rest)
		if err != nil || link.URL.IsZero() {
			return malformed("link %d of %d", n, l.Count)
		}
		if host != "" && link.URL.Host() != host {
			return malformed("link %d of %d is not of its host", n, l.Count)
		}
		rest = rest[used:]
	}
	if n != l.Count || n == 0 {
		return malformed("%d links, not %d", n, l.Count)
	}
	return nil
}

// Records are of a journal; only their receiver knows their form.
type Records struct {
	// Seq numbers the batches of one sender, for the receiver to see a repeated
	// one by.
	Seq   uint64
	Count int
	Data  []byte
}

// A Claim asks what an agent knows of hosts that are the caller's now.
type Claim struct {
	// View is the digest of the agents that the caller sees. An agent that sees
	// others answers Again.
	View  uint64
	Hosts []string
}

// A Verdict is what an agent has of a host that it was asked for by Claim.
type Verdict uint8

// The verdicts.
const (
	// Unknown: it has owned the host, and has nothing more to tell.
	Unknown Verdict = 1 + iota
	// Coming: it stops, and will Hand over what it has.
	Coming
	// Again: it sees other agents than the asker, takes over from a lost agent, or
	// has a request to the host under way. Ask again.
	Again
	// Never: it cannot tell that nothing is finished of the host. Ask another
	// agent as well.
	Never
)

// A Part is one piece of what is handed over of a host. Parts of a host come
// together, its PartGone last.
type Part struct {
	Host string
	Kind PartKind
	// Count is that of links or keys.
	Count int
	Data  []byte
}

// A PartKind says what Data is.
type PartKind uint8

// The parts of a host's state.
const (
	// PartLinks: pending links, as in Links, in their order.
	PartLinks PartKind = 1 + iota
	// PartKeys: keys of known URLs: an octet, how many bits are known of each,
	// then 8 octets of each.
	PartKeys
	// PartState: what politeness must not forget, and how its sender is asked
	// to encode it, is the agent's business: durations only.
	PartState
	// PartGone: there is nothing more, and the sender has stopped.
	PartGone
)

func (p Part) check() error {
	if err := checkHost(p.Host); err != nil {
		return err
	}
	if len(p.Data) > MaxData {
		return fmt.Errorf("%w: %d octets of a host", errTooLarge, len(p.Data))
	}
	switch p.Kind {
	case PartLinks:
		return Links{Count: p.Count, Data: p.Data}.check(p.Host)
	case PartKeys:
		if p.Count <= 0 || len(p.Data) != 1+p.Count*keyLen || p.Data[0] == 0 || p.Data[0] > 8*keyLen {
			return malformed("%d octets for %d keys", len(p.Data), p.Count)
		}
	case PartState:
	case PartGone:
		if len(p.Data) > 0 {
			return malformed("a last part with data")
		}
	default:
		return malformed("part %d", p.Kind)
	}
	return nil
}

// checkHost refuses what is no host name in its canonical form.
func checkHost(host string) error {
	if len(host) == 0 || len(host) > maxHost {
		return malformed("host %.64q", host)
	}
	u, err := weburl.Parse("http://" + host + "/")
	if err != nil || u.Host() != host {
		return malformed("host %.64q", host)
	}
	return nil
}

// A Pulse is whether an agent is idle.
type Pulse struct {
	// View is a digest of who it thinks belongs to the cluster.
	View uint64
	// Activity counts all that makes an agent busy: when it is the same twice,
	// nothing has happened in between.
	Activity uint64
	// Pages counts the HTTP responses other than redirects and robots.txt. It is one
	// more if an agent is gone: nobody knows what that agent fetched.
	Pages uint64
	Idle  bool
	// Stopped: it has links, but may not or will not fetch them.
	Stopped bool
}

// An End says that all are idle.
type End struct {
	View uint64
	// Activity is what the receiver last said of itself.
	Activity uint64
	// Reason is the crawl's stop reason.
	Reason string
	// Prepare only asks whether the receiver would end.
	Prepare bool
}

// A Budget is what an agent has of the pages that all together may fetch.
type Budget struct {
	// Seq numbers those of one start of an agent: an older one says nothing.
	Seq uint64
	// Used were fetched, of those Held, over all runs; Want are asked for.
	Used, Held, Want int64
	// Known is what the agents held when this one last heard of them: so it
	// outlives whoever counts.
	Known map[string]int64
}

// A Grant answers a Budget.
type Grant struct {
	// Held is from now on.
	Held int64
	// Spent: all have been fetched.
	Spent bool
	Known map[string]int64
}
