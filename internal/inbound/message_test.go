package inbound

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A message is read as the library reads it, unless it has too many fields, at any depth.
func TestUnmarshal(t *testing.T) {
	file := protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto)
	packed := &descriptorpb.SourceCodeInfo_Location{Path: make([]int32, 5000)}
	deep := &structpb.Value{}
	for range 9000 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	list := func(n int) *structpb.ListValue {
		return &structpb.ListValue{Values: make([]*structpb.Value, n)}
	}
	encoded := func(m proto.Message) []byte {
		b := must.Get(proto.Marshal(m))(t)
		return b
	}
	for name, c := range map[string]struct {
		wire []byte
		into proto.Message
		ok   bool
	}{
		"an honest message":    {encoded(file), &descriptorpb.FileDescriptorProto{}, true},
		"a time":               {encoded(timestamppb.Now()), &timestamppb.Timestamp{}, true},
		"fields that fit":      {encoded(list(100)), &structpb.ListValue{}, true},
		"too many fields":      {encoded(list(5000)), &structpb.ListValue{}, false},
		"too many in a part":   {encoded(structpb.NewListValue(list(5000))), &structpb.Value{}, false},
		"too deep":             {encoded(deep), &structpb.Value{}, false},
		"packed numbers":       {encoded(packed), &descriptorpb.SourceCodeInfo_Location{}, false},
		"cut off":              {encoded(file)[:40], &descriptorpb.FileDescriptorProto{}, false},
		"a length that is not": {[]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, &structpb.ListValue{}, false},
		"nothing":              {nil, &structpb.ListValue{}, true},
	} {
		err := Unmarshal(c.wire, c.into, 4000)
		want := c.into.ProtoReflect().New().Interface()
		if (err == nil) != c.ok || c.ok && (proto.Unmarshal(c.wire, want) != nil || !proto.Equal(want, c.into)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var read structpb.ListValue
	for text, ok := range map[string]bool{
		`[1, "a", {"b": [true]}]`: true, "[" + strings.Repeat("0,", 5000) + "0]": false, "": false, "[": false,
		strings.Repeat("[", 100_000): false, "[1] [2]": false,
	} {
		if err := UnmarshalJSON([]byte(text), &read, 4000); (err == nil) != ok {
			t.Errorf("%.30s: %v", text, err)
		}
	}
	if err := UnmarshalJSON([]byte(`{"seconds": "1"}`), &timestamppb.Timestamp{}, 4000); err == nil {
		t.Error("a time is an object")
	}
}

// FuzzUnmarshal: what is read is what the library reads.
func FuzzUnmarshal(f *testing.F) {
	for _, m := range []proto.Message{structpb.NewStringValue("a"), structpb.NewListValue(&structpb.ListValue{
		Values: []*structpb.Value{structpb.NewNumberValue(2), structpb.NewBoolValue(true)}})} {
		b := must.Get(proto.Marshal(m))(f)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, want protoreflect.ProtoMessage = &structpb.Value{}, &structpb.Value{}
		err := Unmarshal(b, m, MaxFields)
		if wanted := proto.Unmarshal(b, want); errors.Is(err, ErrFields) {
			return
		} else if (err == nil) != (wanted == nil) || err == nil && !proto.Equal(m, want) {
			t.Errorf("%v, want %v", err, wanted)
		}
	})
}

// A Room lets calls in one after the other. The largest call has it alone.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRoom(100)
		var leaves []func()
		for range 4 {
			leave := must.Get(r.Enter(t.Context(), 25))(t)
			leaves = append(leaves, leave)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Enter(gone, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone: %v", err)
		}
		if _, ok := r.TryEnter(1); ok {
			t.Error("there is room for one more")
		}
		in := false
		go func() {
			leave, err := r.Enter(t.Context(), 1000)
			if in = err == nil; in {
				leave()
			}
		}()
		for _, leave := range leaves {
			if synctest.Wait(); in {
				t.Error("a call of the whole room is let in beside others")
			}
			leave()
		}
		if synctest.Wait(); !in {
			t.Error("a call that needs more than the room is never let in")
		}
		if leave, ok := r.TryEnter(1); !ok {
			t.Error("there is no room when all have left")
		} else {
			leave()
		}
	})
}
