// Package testwire answers, for tests: does today's program read the Protocol Buffers messages of earlier programs?
//
// A golden file has a line of JSON for each form that a message has had: its name, its encoding, and its value. The
// lines are never changed. A form is a message with a value in each field.
package testwire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// A line is a form of a message.
type line struct {
	Message protoreflect.FullName `json:"message"`
	Wire    []byte                `json:"wire"`
	Value   json.RawMessage       `json:"value"` // as protojson has it
}

// Golden fails the test if a form in the golden file has another value today, or if the file lacks today's form of
// a message in the .proto files. With update it adds such forms to the file.
func Golden(t *testing.T, name string, update bool, files ...protoreflect.FileDescriptor) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && update) {
		t.Fatal(err)
	}
	known := map[string]bool{}
	in := bufio.NewScanner(bytes.NewReader(text))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		known[string(l.Message)+string(l.Wire)] = true
		if err := check(&l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, f := range files {
		for i := range f.Messages().Len() {
			m := made(t, f.Messages().Get(i), 0)
			l := line{Message: m.ProtoReflect().Descriptor().FullName()}
			var err, err2 error
			l.Wire, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
			l.Value, err2 = protojson.Marshal(m)
			b, err3 := json.Marshal(l)
			if err := errors.Join(err, err2, err3); err != nil {
				t.Fatal(err)
			}
			if known[string(l.Message)+string(l.Wire)] {
				continue
			}
			if !update {
				t.Errorf("%s lacks today's form of %s: run the test with -update", name, l.Message)
			}
			text = append(append(text, b...), '\n')
		}
	}
	if !update {
		return
	}
	err = os.MkdirAll(filepath.Dir(name), 0o755)
	if err := errors.Join(err, os.WriteFile(name, text, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// check compares what today's program reads with the value in the golden file.
func check(l *line) error {
	typ, err := protoregistry.GlobalTypes.FindMessageByName(l.Message)
	if err != nil {
		return fmt.Errorf("%s: %w", l.Message, err)
	}
	m := typ.New().Interface()
	if err := proto.Unmarshal(l.Wire, m); err != nil {
		return fmt.Errorf("%s: %w", l.Message, err)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", l.Message, err)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal(l.Value, &want)); err != nil {
		return fmt.Errorf("%s: %w", l.Message, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s has another value today (-want +got):\n%s", l.Message, diff)
	}
	return nil
}

// made returns a message with a value in each field. Below some depth, messages are empty.
func made(t *testing.T, d protoreflect.MessageDescriptor, depth int) proto.Message {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	m := typ.New()
	if depth > 2 || d.FullName().Parent() == "google.protobuf" {
		return m.Interface()
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		value := func(f protoreflect.FieldDescriptor) protoreflect.Value {
			if f.Message() != nil {
				return protoreflect.ValueOfMessage(made(t, f.Message(), depth+1).ProtoReflect())
			}
			return scalar(t, f)
		}
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(value(f.MapKey()).MapKey(), value(f.MapValue()))
		case f.IsList():
			list := m.Mutable(f).List()
			list.Append(value(f))
			list.Append(value(f))
		default:
			m.Set(f, value(f))
		}
	}
	return m.Interface()
}

// scalar returns a value that depends on the field's number. Numbers are so large that a smaller type cannot hold
// them, and negative if the type allows it.
func scalar(t *testing.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	t.Helper()
	n := int64(f.Number())
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s é %d", f.Name(), n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0xff, 0, byte(n)})
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(-math.Pi * float64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(-1.5 * float32(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(math.MinInt32 + int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(math.MinInt64 + n)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(math.MaxUint32 - uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(math.MaxUint64 - uint64(n))
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number())
	}
	t.Fatalf("field %s: a value of kind %s is not known here", f.FullName(), f.Kind())
	return protoreflect.Value{}
}
