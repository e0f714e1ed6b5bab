package orders

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

var begin = time.UnixMilli(1_700_000_000_123).UTC()

func sample() Order {
	return Order{Clock: 0x18f3c2d4e5a60001, Agent: "a1", At: begin, By: "alice@host", Why: "they complained",
		Verb: "block", About: "a.example", Value: "5/s"}
}

// anyText draws texts, with characters of several bytes.
func anyText(most int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("aé世\u00a0-\U0001f577")), 0, -1, most)
}

var anyOrder = rapid.Custom(func(t *rapid.T) Order {
	return Order{
		Clock: rapid.Uint64Max(maxClock).Draw(t, "clock"),
		Agent: "a" + anyText(MaxAgent-1).Draw(t, "agent"),
		At:    time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "at")).UTC(),
		By:    anyText(MaxText).Draw(t, "by"), Why: anyText(MaxText).Draw(t, "why"),
		Verb:  rapid.StringMatching(`[a-z-]{1,32}`).Draw(t, "verb"),
		About: anyText(MaxAbout).Draw(t, "about"), Value: anyText(MaxText).Draw(t, "value"),
		Off: rapid.Bool().Draw(t, "off"),
	}
})

// TestOrderRoundTrip: decoding an encoded order gives the order, and leaves what follows it.
func TestOrderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyOrder.Draw(t, "order")
		must.Do(t, o.Check())
		b := o.AppendTo([]byte("before"))[len("before"):]
		got, n, err := Decode(append(bytes.Clone(b), "behind"...))
		if err != nil || n != len(b) || got != o {
			t.Fatalf("%+v, %d of %d bytes, %v; want %+v", got, n, len(b), err, o)
		}
		for i := range b {
			if got, _, err := Decode(b[:i]); !errors.Is(err, ErrOrder) {
				t.Fatalf("%d of %d bytes are %+v, %v", i, len(b), got, err)
			}
		}
	})
}

func TestZeroTime(t *testing.T) {
	o := Order{Agent: "a1", Verb: "pause"}
	if got, _, err := Decode(o.AppendTo(nil)); err != nil || got != o {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Order)
		want   string // of the error; empty: none
	}{
		{"sample", func(*Order) {}, ""},
		{"longest", func(o *Order) {
			o.Clock, o.Agent, o.Verb = maxClock, strings.Repeat("a", 64), strings.Repeat("z", 32)
			o.About = strings.Repeat("é", 1000)
			o.By, o.Why, o.Value = strings.Repeat("b", 200), strings.Repeat("c", 200), strings.Repeat("d", 200)
		}, ""},
		{"shortest", func(o *Order) { *o = Order{Agent: "a", Verb: "x-y"} }, ""},
		{"no verb", func(o *Order) { o.Verb = "" }, `verb ""`},
		{"long verb", func(o *Order) { o.Verb = strings.Repeat("z", 33) }, "1 to 32"},
		{"capital", func(o *Order) { o.Verb = "Block" }, `verb "Block"`},
		{"broken verb", func(o *Order) { o.Verb = "a\xff" }, "verb"},
		{"no agent", func(o *Order) { o.Agent = "" }, "no agent"},
		{"long agent", func(o *Order) { o.Agent = strings.Repeat("a", 65) }, "agent of 65 bytes, at most 64"},
		{"long about", func(o *Order) { o.About = strings.Repeat("a", 2001) }, "about of 2001 bytes, at most 2000"},
		{"long value", func(o *Order) { o.Value = strings.Repeat("a", 201) }, "value of 201 bytes"},
		{"long reason", func(o *Order) { o.Why = strings.Repeat("a", 201) }, "reason of 201 bytes"},
		{"long giver", func(o *Order) { o.By = strings.Repeat("a", 201) }, "giver of 201 bytes"},
		{"two lines", func(o *Order) { o.Why = "a\nb" }, `reason "a\nb"`},
		{"control character", func(o *Order) { o.About = "a\u0085" }, "about"},
		{"no UTF-8", func(o *Order) { o.By = "\xc3" }, "giver"},
		{"late clock", func(o *Order) { o.Clock = maxClock + 1 }, "year 9999"},
		{"late", func(o *Order) { o.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "year 10000"},
		{"early", func(o *Order) { o.At = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) }, "year 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := sample()
			c.change(&o)
			err := o.Check()
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" && (!errors.Is(err, ErrOrder) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, _, derr := Decode(o.AppendTo(nil)); (derr == nil) != (err == nil) {
				t.Errorf("Decode: %v, Check: %v", derr, err)
			}
		})
	}
}

func TestID(t *testing.T) {
	o := sample()
	o.Agent = "a-1"
	if got, want := o.ID(), "a-1-18f3c2d4e5a60001"; got != want {
		t.Errorf("ID %q, want %q", got, want)
	}
	s := NewSet()
	s.Merge([]Order{o})
	if got, ok := s.Find(o.ID()); !ok || got != o {
		t.Errorf("found %+v, %v", got, ok)
	}
	for _, id := range []string{"", "-", "a-1", "a-1-", "a-1-18F3C2D4E5A60001", "a-1-018f3c2d4e5a60001",
		"a-1-18f3c2d4e5a60002", "a-1-+18f3c2d4e5a60001", "-18f3c2d4e5a60001", "a-1-18f3c2d4e5a600010"} {
		if got, ok := s.Find(id); ok {
			t.Errorf("%q is %+v", id, got)
		}
	}
}

// FuzzDecode: an order that is accepted passes Check, and is encoded to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add(sample().AppendTo(nil))
	f.Add(Order{Agent: "a", Verb: "pause", Off: true}.AppendTo(nil))
	f.Add([]byte{version, 0x80, 0})
	f.Add([]byte{version, 1, 2, 0, 1, 'a', 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, n, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrOrder) || n != 0 || o != (Order{}) {
				t.Fatalf("%+v, %d, %v", o, n, err)
			}
			return
		}
		must.Do(t, o.Check())
		if again := o.AppendTo(nil); !bytes.Equal(again, b[:n]) {
			t.Fatalf("%x is %x", b[:n], again)
		}
	})
}
