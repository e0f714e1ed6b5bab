package inbound

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaxFields is how many fields a request may have, those of its parts included. Decoded, an empty part takes 50 times
// its two bytes. So a bound of the size alone does not bound the memory of a message.
const MaxFields = 1 << 15

// ErrFields reports a message with too many fields.
var ErrFields = errors.New("the message has too many fields")

// Unmarshal reads a message in the binary format of protocol buffers, unless it has more than most fields.
func Unmarshal(b []byte, m proto.Message, most int) error {
	left := most
	if err := count(b, m.ProtoReflect().Descriptor(), &left, protowire.DefaultRecursionLimit); err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

// count takes the fields of a message from left. The parts have at most depth levels.
func count(b []byte, d protoreflect.MessageDescriptor, left *int, depth int) error {
	if depth == 0 {
		return errors.New("the message has too many levels")
	}
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(num, kind, b[n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		if *left--; *left < 0 {
			return ErrFields
		}
		if f := d.Fields().ByNumber(num); f != nil && kind == protowire.BytesType {
			part, _ := protowire.ConsumeBytes(b[n:])
			if f.Message() != nil {
				if err := count(part, f.Message(), left, depth-1); err != nil {
					return err
				}
			} else if f.IsList() && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind {
				if *left -= len(part); *left < 0 { // packed numbers
					return ErrFields
				}
			}
		}
		b = b[n+size:]
	}
	return nil
}

// UnmarshalJSON reads a message in JSON, unless it has more than most names, values and brackets. It ignores unknown
// fields.
func UnmarshalJSON(b []byte, m proto.Message, most int) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	for n := 0; ; n++ {
		switch _, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, m)
		case err != nil:
			return err
		case n >= most:
			return ErrFields
		}
	}
}
