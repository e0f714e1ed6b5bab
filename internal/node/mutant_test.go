package node_test

import (
	"encoding/base64"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// A mutator makes messages that no honest caller sends: of the type that a call expects, with values at their limits,
// values that agents have sent themselves, and damaged bytes.
type mutator struct {
	room int // elements that the message may still get
	rng  *rand.Rand
	// seen has values of fields of answers, such as tokens, file names and positions, by the field's name.
	seen map[protoreflect.Name][]protoreflect.Value
	// whole has encoded messages that were accepted or that agents have sent, by the path of the call.
	whole map[string][][]byte
}

// seenMost bounds the values and the messages that a mutator keeps under one name.
const seenMost = 64

func newMutator(rng *rand.Rand) *mutator {
	return &mutator{rng: rng, seen: map[protoreflect.Name][]protoreflect.Value{}, whole: map[string][][]byte{}}
}

func pick[E any](m *mutator, list []E) E { return list[m.rng.IntN(len(list))] }

// chance is true in one of n cases.
func (m *mutator) chance(n int) bool { return m.rng.IntN(n) == 0 }

// keep adds v to a list of bounded length.
func keep[E any](m *mutator, list []E, v E) []E {
	if len(list) < seenMost {
		return append(list, v)
	}
	list[m.rng.IntN(seenMost)] = v
	return list
}

// learn remembers an encoded message.
func (m *mutator) learn(path string, b []byte) {
	m.whole[path] = keep(m, m.whole[path], slices.Clone(b))
}

// look remembers the values of a message's fields.
func (m *mutator) look(msg protoreflect.Message) {
	msg.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		one := func(v protoreflect.Value) {
			if f.Message() != nil && !f.IsMap() {
				m.look(v.Message())
			} else if f.Kind() != protoreflect.BoolKind {
				m.seen[f.Name()] = keep(m, m.seen[f.Name()], v)
			}
		}
		switch {
		case f.IsMap():
		case f.IsList():
			for i := range min(v.List().Len(), 20) {
				one(v.List().Get(i))
			}
		default:
			one(v)
		}
		return true
	})
}

// fill sets most of a message's fields.
func (m *mutator) fill(msg protoreflect.Message, depth int) {
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if m.chance(4) || f.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case f.IsMap():
			for range m.rng.IntN(4) {
				v := msg.Mutable(f).Map().NewValue()
				if f.MapValue().Message() == nil {
					v = m.scalar(f.MapValue())
				}
				msg.Mutable(f).Map().Set(m.scalar(f.MapKey()).MapKey(), v)
			}
		case f.IsList():
			list := msg.Mutable(f).List()
			for range m.number([]int{1, 1, 1, 2, 3, 20, 1001}) {
				if m.room--; m.room < 0 {
					break // a message that contains messages of its own kind would take all memory
				}
				if f.Message() == nil {
					list.Append(m.scalar(f))
					continue
				}
				v := list.NewElement()
				m.fill(v.Message(), depth-1)
				list.Append(v)
			}
		case f.Message() != nil:
			m.fill(msg.Mutable(f).Message(), depth-1)
		default:
			msg.Set(f, m.scalar(f))
		}
	}
}

// number returns one of the numbers, the last one seldom.
func (m *mutator) number(of []int) int {
	if m.chance(20) {
		return of[len(of)-1]
	}
	return pick(m, of[:len(of)-1])
}

// The limits of numbers, and texts with a meaning for some call.
var (
	numbers = []int64{0, 1, -1, 2, 5, 15, 16, 60, 100, 255, 500, 1000, 1001, 65536, math.MaxInt32, math.MinInt32,
		math.MaxInt64, math.MinInt64, math.MinInt64 + 1, 1 << 40, 1 << 50, 1 << 62}
	texts = []string{"", "a", "a1", "a2", "a3", "x", "h1.example", "h2.example", "*.h1.example", "*.example",
		"http://h1.example/1", "http://h2.example/2", "http://h3.example/", "http://[::1]/", "http:/", "http://",
		"127.0.0.0/8", "10.0.0.1", "/1", ".*", `\.html$`, "(", strings.Repeat("(a?)", 400), "(a{999}){9}", "5/s",
		"none", "10s 8-18 mon-fri, else 2s", "1kbit", "0", "2", "-1", "failed", "4xx", "200", "follow", "list", "host",
		"any",
		"news", "shop", "crawl", "1 h1.example a1", "-1  ", "\x00\r\n", "\u202e\ufeff", "UTC", "Europe/Berlin",
		"block", "delay", "exclude", "pause", "rate",
		"finished", "operator", strings.Repeat("x", 70_000), "a1-0", "depth", "../../etc/passwd", "*", "?", "a.b.c"}
)

// scalar returns a value of a field that is no message.
func (m *mutator) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	if seen := m.seen[f.Name()]; len(seen) > 0 && !m.chance(3) {
		if v := pick(m, seen); sameKind(f, v) {
			return m.near(f, v)
		}
	}
	n := pick(m, numbers)
	if m.chance(4) {
		n = int64(m.rng.Uint64() >> m.rng.IntN(64))
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(m.chance(2))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(m.number([]int{0, 1, 2, 3, 4, 5, -1})))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(m.float(n)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(m.float(n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(m.damage([]byte(pick(m, texts))))
	}
	if f.Name() == "token" || f.Name() == "after" {
		return protoreflect.ValueOfString(m.token(""))
	}
	return protoreflect.ValueOfString(pick(m, texts))
}

func sameKind(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	switch v.Interface().(type) {
	case string:
		return f.Kind() == protoreflect.StringKind
	case []byte:
		return f.Kind() == protoreflect.BytesKind
	case int32:
		return f.Kind() == protoreflect.Int32Kind
	case int64:
		return f.Kind() == protoreflect.Int64Kind
	case uint64:
		return f.Kind() == protoreflect.Uint64Kind
	}
	return false
}

func (m *mutator) float(n int64) float64 {
	return pick(m, []float64{float64(n), 0, -1, 0.5, 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324})
}

// near returns a value that was seen, or one that is nearly the same.
func (m *mutator) near(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	if !m.chance(3) {
		return v
	}
	switch v := v.Interface().(type) {
	case string:
		if f.Name() == "token" || f.Name() == "after" {
			return protoreflect.ValueOfString(m.token(v))
		}
		return protoreflect.ValueOfString(strings.ToValidUTF8(string(m.damage([]byte(v))), "?"))
	case []byte:
		return protoreflect.ValueOfBytes(m.damage(v))
	case int32:
		return protoreflect.ValueOfInt32(v + int32(pick(m, numbers[:5])))
	case int64:
		return protoreflect.ValueOfInt64(v + pick(m, numbers))
	case uint64:
		return protoreflect.ValueOfUint64(v + uint64(pick(m, numbers)))
	}
	return v
}

// token returns a token of the caller's making, or one that was seen with other content.
func (m *mutator) token(was string) string {
	b, err := base64.RawURLEncoding.DecodeString(was)
	if was == "" || err != nil || m.chance(2) {
		p := pick(m, []proto.Message{new(pb.QueuePosition), new(pb.PagesPosition)})
		m.fill(p.ProtoReflect(), 2)
		b, _ = proto.Marshal(p) // what cannot be encoded is an empty token
	} else {
		b = m.wire(b)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// damage changes some bytes.
func (m *mutator) damage(b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + m.rng.IntN(3) {
		if len(b) == 0 {
			b = append(b, byte(m.rng.Uint32()))
		}
		at := m.rng.IntN(len(b))
		switch m.rng.IntN(7) {
		case 0:
			b[at] ^= 1 << m.rng.IntN(8)
		case 1:
			b[at] = pick(m, []byte{0, 1, 0x7f, 0x80, 0xff})
		case 2:
			b = b[:at]
		case 3:
			b = slices.Delete(b, at, min(len(b), at+1+m.rng.IntN(8)))
		case 4:
			b = slices.Insert(b, at, byte(m.rng.Uint32()), byte(m.rng.Uint32()))
		case 5:
			b = slices.Insert(b, at, slices.Repeat([]byte{0xff}, 9)...)
		case 6:
			if len(b) < 64<<10 {
				b = slices.Insert(b, at, b[at:]...)
			}
		}
	}
	return b
}

// wireMost bounds the bytes that wire adds by repeating a field. It is over every bound of a message, and little enough
// that the test's own copies do not count as memory of the agents.
const wireMost = 12 << 20

// wire changes an encoded message in one place, without knowing its type.
func (m *mutator) wire(b []byte) []byte {
	type field struct {
		num  protowire.Number
		kind protowire.Type
		body []byte
	}
	var fields []field
	for rest := b; len(rest) > 0; {
		num, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return m.damage(b)
		}
		size := protowire.ConsumeFieldValue(num, kind, rest[n:])
		if size < 0 {
			return m.damage(b)
		}
		fields, rest = append(fields, field{num, kind, rest[n : n+size]}), rest[n+size:]
	}
	if len(fields) == 0 || m.chance(8) {
		num := protowire.Number(1 + m.rng.IntN(8))
		if m.chance(2) {
			fields = append(fields, field{num, protowire.VarintType,
				protowire.AppendVarint(nil, uint64(pick(m, numbers)))})
		} else {
			fields = append(fields, field{num, protowire.BytesType, protowire.AppendString(nil, pick(m, texts))})
		}
	}
	i := m.rng.IntN(len(fields))
	switch f := &fields[i]; {
	case m.chance(8):
		fields = slices.Delete(fields, i, i+1)
	case m.chance(8):
		n := min(m.number([]int{1, 2, 20, 5000}), wireMost/(1+len(f.body)))
		fields = slices.Insert(fields, i, slices.Repeat(fields[i:i+1], n)...)
	case f.kind == protowire.VarintType:
		f.body = protowire.AppendVarint(nil, uint64(pick(m, numbers)))
	case f.kind == protowire.BytesType:
		inner, _ := protowire.ConsumeBytes(f.body)
		switch m.rng.IntN(3) {
		case 0:
			inner = m.damage(inner)
		case 1:
			inner = m.wire(inner)
		default:
			inner = []byte(pick(m, texts))
		}
		f.body = protowire.AppendBytes(nil, inner)
	default:
		f.body = m.damage(f.body)
	}
	var out []byte
	for _, f := range fields {
		out = append(protowire.AppendTag(out, f.num, f.kind), f.body...)
	}
	return out
}

// message returns an encoded message for a call.
func (m *mutator) message(path string, of proto.Message) []byte {
	if whole := m.whole[path]; len(whole) > 0 && m.chance(2) {
		b := pick(m, whole)
		for range m.rng.IntN(4) {
			b = m.wire(b)
		}
		return b
	}
	msg := proto.Clone(of)
	m.room = 4000
	m.fill(msg.ProtoReflect(), 3)
	b, err := proto.Marshal(msg)
	if err != nil || m.chance(10) {
		return m.damage(b)
	}
	return b
}
