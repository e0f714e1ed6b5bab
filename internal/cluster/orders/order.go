package orders

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/store/fields"
)

// Limits of the fields of an Order, in bytes.
const (
	MaxVerb  = 32
	MaxAbout = 2000
	MaxText  = 200 // of By, Why and Value
	MaxAgent = 64
	// maxClock is the last clock of the year 9999.
	maxClock = 253402300799999<<16 | 1<<16 - 1
	version  = 1
)

// ErrOrder reports an order that breaks the rules of its fields, or bytes that are no order.
var ErrOrder = errors.New("invalid order")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOrder, fmt.Sprintf(format, args...))
}

// An Order is what an operator has told the cluster. It never changes.
type Order struct {
	// Clock is a hybrid logical clock: Unix milliseconds << 16, plus a counter.
	Clock uint64
	// Agent is the agent that received the order. Clock and Agent identify it.
	Agent string
	// At is when, by that agent's clock: UTC, in whole milliseconds.
	At time.Time
	// By is who gave the order, such as "token" or "alice@host". It may be empty.
	By string
	// Why is the reason that the operator gave. It may be empty.
	Why string
	// Verb is what to do, such as "pause" or "block".
	Verb string
	// About is to what the order applies, such as a host. Empty means everything.
	About string
	// Value is a parameter, such as a rate. It may be empty.
	Value string
	// Off takes back the order with the same Verb and About.
	Off bool
}

// A Mark is a position in the total order of orders. The zero Mark is before all orders.
type Mark struct {
	Clock uint64
	Agent string
}

// Compare orders marks by Clock, then Agent.
func (m Mark) Compare(n Mark) int {
	return cmp.Or(cmp.Compare(m.Clock, n.Clock), strings.Compare(m.Agent, n.Agent))
}

// Mark returns the position of the order.
func (o Order) Mark() Mark { return Mark{o.Clock, o.Agent} }

// A subject is what orders are about. The latest order about a subject holds.
type subject struct{ verb, about string }

func (o Order) subject() subject { return subject{o.Verb, o.About} }

// ID returns a short text that identifies the order: the agent, "-", and the clock in hexadecimal digits.
func (o Order) ID() string { return o.Agent + "-" + strconv.FormatUint(o.Clock, 16) }

// parseID reads what ID returned.
func parseID(id string) (m Mark, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i < 0 {
		return m, false
	}
	clock, err := strconv.ParseUint(id[i+1:], 16, 64)
	m = Mark{clock, id[:i]}
	return m, err == nil && Order{Clock: clock, Agent: m.Agent}.ID() == id
}

// Check returns an ErrOrder if a field is out of its bounds. Texts must be valid UTF-8 without control characters.
func (o Order) Check() error {
	if o.Clock > maxClock {
		return invalid("clock %#x is past the year 9999", o.Clock)
	}
	if y := o.At.UTC().Year(); y < 1 || y > 9999 {
		return invalid("the time is in the year %d, it must be in 1 to 9999", y)
	}
	if o.Verb == "" || len(o.Verb) > MaxVerb || strings.ContainsFunc(o.Verb, notOfVerb) {
		return invalid("verb %.80q: it must have 1 to %d of the characters a-z and -", o.Verb, MaxVerb)
	}
	if o.Agent == "" {
		return invalid("it names no agent")
	}
	for _, t := range []struct {
		name, text string
		most       int
	}{
		{"agent", o.Agent, MaxAgent}, {"about", o.About, MaxAbout}, {"value", o.Value, MaxText},
		{"reason", o.Why, MaxText}, {"giver", o.By, MaxText},
	} {
		switch {
		case len(t.text) > t.most:
			return invalid("%s of %d bytes, at most %d", t.name, len(t.text), t.most)
		case !utf8.ValidString(t.text) || strings.ContainsFunc(t.text, unicode.IsControl):
			return invalid("%s %.80q: it must be UTF-8 without control characters", t.name, t.text)
		}
	}
	return nil
}

func notOfVerb(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }

// fields names the fields of an order.
func (o *Order) fields(c *fields.Codec) {
	fields.Uint(c, &o.Clock)
	c.Milli(&o.At)
	c.Flags(&o.Off)
	for _, t := range [...]*string{&o.Agent, &o.By, &o.Why, &o.Verb, &o.About, &o.Value} {
		fields.Text(c, t, math.MaxInt)
	}
}

// AppendTo appends the encoding of an order that passes Check.
func (o Order) AppendTo(dst []byte) []byte {
	c := fields.Write(append(dst, version))
	o.fields(c)
	return c.Written()
}

// Decode reads an order from the beginning of src. n is how many bytes it takes. The order passes Check. The error
// is ErrOrder.
func Decode(src []byte) (o Order, n int, err error) {
	if len(src) == 0 || src[0] != version {
		return Order{}, 0, invalid("%.1x is no version of its encoding that this program knows", src)
	}
	c := fields.Read(src[1:])
	if o.fields(c); !c.Ok() {
		return Order{}, 0, invalid("its encoding is cut off, or not the shortest")
	}
	if err := o.Check(); err != nil {
		return Order{}, 0, err
	}
	return o, len(src) - c.Left(), nil
}
