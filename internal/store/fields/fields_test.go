package fields

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// A record has a field of each kind.
type record struct {
	kind    uint8
	key     uint64
	print   [4]byte
	count   int
	size    int64
	code    int
	took    time.Duration
	at, due time.Time
	name    string
	state   []byte
	first   bool
	second  bool
	items   []string
}

func (r *record) fields(c *Codec) {
	c.Tag(7)
	Byte(c, &r.kind)
	Fixed64(c, &r.key)
	c.Fixed(r.print[:])
	Uint(c, &r.count)
	Uint(c, &r.size)
	Int(c, &r.code)
	c.Duration(&r.took, time.Microsecond)
	c.Micro(&r.at)
	c.Milli(&r.due)
	Text(c, &r.name, 8)
	Text(c, &r.state, 8)
	c.Flags(&r.first, &r.second)
	List(c, &r.items, 4, 1, func(s *string) { Text(c, s, 8) })
}

func drawn(t *rapid.T) *record {
	r := &record{
		kind: rapid.Byte().Draw(t, "kind"), key: rapid.Uint64().Draw(t, "key"), count: rapid.Int().Draw(t, "count"),
		size: rapid.Int64().Draw(t, "size"), code: rapid.Int().Draw(t, "code"),
		took: time.Duration(rapid.Int64Range(0, math.MaxInt64/1000).Draw(t, "took")) * time.Microsecond,
		at:   time.UnixMicro(rapid.Int64Range(-1e15, 1e15).Draw(t, "at")).UTC(),
		due:  time.UnixMilli(rapid.Int64Range(-1e12, 1e12).Draw(t, "due")).UTC(),
		name: rapid.StringN(0, 8, 8).Draw(t, "name"), state: rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "state"),
		first: rapid.Bool().Draw(t, "first"), second: rapid.Bool().Draw(t, "second"),
		items: rapid.SliceOfN(rapid.StringN(0, 8, 8), 1, 4).Draw(t, "items"),
	}
	copy(r.print[:], r.name)
	return r
}

func written(r *record) []byte {
	c := Write(nil)
	r.fields(c)
	return c.Written()
}

// TestCodec writes records and reads them again. A piece of a record, and one with a byte more, are not whole.
func TestCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawn(t)
		p := written(want)
		var got record
		c := Read(p)
		if got.fields(c); !c.Whole() || !reflect.DeepEqual(&got, want) {
			t.Fatalf("read %+v from %+v", got, want)
		}
		for n := range p {
			c := Read(p[:n])
			if got.fields(c); c.Ok() {
				t.Fatalf("%d of %d bytes are a record", n, len(p))
			}
		}
		c = Read(append(p, 0))
		if got.fields(c); !c.Ok() || c.Whole() || c.Left() != 1 || string(c.Rest()) != "\x00" {
			t.Fatal("a byte after a record is not left")
		}
	})
}

// TestBytes reads any bytes: what is a whole record has no other encoding.
func TestBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := written(drawn(t))
		p[rapid.IntRange(0, len(p)-1).Draw(t, "place")] = rapid.Byte().Draw(t, "byte")
		var got record
		c := Read(p)
		if got.fields(c); c.Whole() && string(written(&got)) != string(p) {
			t.Fatalf("%x reads as a record of %x", p, written(&got))
		}
	})
}

func TestRefuse(t *testing.T) {
	var u uint32
	var n int
	var s string
	var d time.Duration
	var l []byte
	var flag bool
	for name, one := range map[string]struct {
		src  string
		read func(*Codec)
	}{
		"a longer encoding":      {"\x81\x00", func(c *Codec) { Uint(c, &u) }},
		"a longer signed one":    {"\x81\x00", func(c *Codec) { Int(c, &n) }},
		"more than 32 bits":      {"\xff\xff\xff\xff\x7f", func(c *Codec) { Uint(c, &u) }},
		"a number without end":   {strings.Repeat("\x80", 11), func(c *Codec) { Uint(c, &n) }},
		"another tag":            {"\x02", func(c *Codec) { c.Tag(1) }},
		"another flag":           {"\x02", func(c *Codec) { c.Flags(&flag) }},
		"a text too long":        {"\x03abc", func(c *Codec) { Text(c, &s, 2) }},
		"a text of 2^64-1 bytes": {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", func(c *Codec) { Text(c, &s, 2) }},
		"a duration of centuries": {"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", func(c *Codec) {
			c.Duration(&d, time.Hour)
		}},
		"a list too long": {"\x04\x00\x00\x00\x00", func(c *Codec) {
			List(c, &l, 3, 1, func(b *byte) { Byte(c, b) })
		}},
		"a list of more than there is": {"\x09\x00\x00", func(c *Codec) {
			List(c, &l, 99, 1, func(b *byte) { Byte(c, b) })
		}},
		"a value that the caller refuses": {"\x01", func(c *Codec) { Uint(c, &n); c.Check(n == 2) }},
	} {
		c := Read([]byte(one.src + "rest"))
		if one.read(c); c.Ok() || c.Left() != 0 {
			t.Errorf("%s is read", name)
		}
	}
}
