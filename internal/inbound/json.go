package inbound

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// MarshalJSON returns a message as a JSON object, in the form of all JSON of a crawl: fields have their names of the
// .proto file, all numbers are numbers, and a time is a clock.Stamp. With defaults it has fields that are "", 0, false
// or empty lists, too. Package protojson has other names, and writes 64-bit numbers as strings. UnmarshalJSON reads
// both.
func MarshalJSON(m proto.Message, defaults bool) ([]byte, error) {
	e := encoder{defaults: defaults}
	e.message(m.ProtoReflect())
	return e.Bytes(), e.err
}

// An encoder writes a message in JSON.
type encoder struct {
	bytes.Buffer
	defaults bool
	err      error
}

func (e *encoder) message(m protoreflect.Message) {
	switch of := m.Interface().(type) {
	case *timestamppb.Timestamp:
		e.value(clock.Stamp{Time: of.AsTime()})
		return
	case *structpb.Struct:
		e.plain(of.Fields)
		return
	}
	before := byte('{')
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if !m.Has(f) && (!e.defaults || f.HasPresence()) {
			continue
		}
		e.WriteByte(before)
		before = ','
		e.value(f.TextName())
		e.WriteByte(':')
		e.field(f, m.Get(f))
	}
	if before == '{' {
		e.WriteByte('{')
	}
	e.WriteByte('}')
}

func (e *encoder) field(f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case f.IsMap():
		e.err = fmt.Errorf("field %s is a map, which has no form here", f.FullName())
	case f.IsList():
		e.WriteByte('[')
		for i := range v.List().Len() {
			if i > 0 {
				e.WriteByte(',')
			}
			e.scalar(f, v.List().Get(i))
		}
		e.WriteByte(']')
	default:
		e.scalar(f, v)
	}
}

func (e *encoder) scalar(f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		e.message(v.Message())
	case protoreflect.EnumKind:
		e.value(string(f.Enum().Values().ByNumber(v.Enum()).Name()))
	case protoreflect.BytesKind:
		e.value(base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.DoubleKind:
		e.number(v.Float())
	default: // a text, a number or a boolean
		e.value(v.Interface())
	}
}

// plain writes the fields of a Struct, sorted by name.
func (e *encoder) plain(fields map[string]*structpb.Value) {
	e.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			e.WriteByte(',')
		}
		e.value(name)
		e.WriteByte(':')
		e.any(fields[name])
	}
	e.WriteByte('}')
}

// any writes a value of a Struct.
func (e *encoder) any(v *structpb.Value) {
	switch of := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		e.number(of.NumberValue)
	case *structpb.Value_StructValue:
		e.plain(of.StructValue.GetFields())
	case *structpb.Value_ListValue:
		e.WriteByte('[')
		for i, v := range of.ListValue.GetValues() {
			if i > 0 {
				e.WriteByte(',')
			}
			e.any(v)
		}
		e.WriteByte(']')
	default:
		e.value(v.AsInterface())
	}
}

// number writes a number. A whole one has no exponent, so that readers of whole numbers can read it.
func (e *encoder) number(x float64) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		e.WriteString("null")
	case x == math.Trunc(x) && math.Abs(x) < 1<<63:
		e.Write(strconv.AppendInt(e.AvailableBuffer(), int64(x), 10))
	default:
		e.value(x)
	}
}

// value writes a value without parts.
func (e *encoder) value(v any) {
	j := json.NewEncoder(&e.Buffer)
	j.SetEscapeHTML(false)
	if err := j.Encode(v); err != nil {
		e.err = err
		return
	}
	e.Truncate(e.Len() - 1) // its newline
}
