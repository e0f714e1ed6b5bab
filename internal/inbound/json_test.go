package inbound

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestMarshalJSON(t *testing.T) {
	nested := &descriptorpb.DescriptorProto{Name: proto.String("<a&b>\u001b\""), ReservedName: []string{"a", "b"},
		Field: []*descriptorpb.FieldDescriptorProto{{Number: proto.Int32(7), JsonName: proto.String("x"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), Proto3Optional: proto.Bool(false)}}}
	for _, c := range []struct {
		m        proto.Message
		defaults bool
		want     string
	}{
		{&wrapperspb.Int64Value{Value: math.MinInt64}, false, `{"value":-9223372036854775808}`},
		{&wrapperspb.UInt64Value{Value: math.MaxUint64}, false, `{"value":18446744073709551615}`},
		{&wrapperspb.Int64Value{}, false, `{}`},
		{&wrapperspb.Int64Value{}, true, `{"value":0}`},
		{&wrapperspb.DoubleValue{Value: 1e15}, false, `{"value":1000000000000000}`},
		{&wrapperspb.DoubleValue{Value: 0.5}, false, `{"value":0.5}`},
		{&wrapperspb.DoubleValue{Value: math.NaN()}, false, `{"value":null}`},
		{&wrapperspb.BytesValue{Value: []byte{255, 0}}, false, `{"value":"/wA="}`},
		{&durationpb.Duration{Seconds: 1 << 40, Nanos: 5}, false, `{"seconds":1099511627776,"nanos":5}`},
		{timestamppb.New(time.Unix(1e9, 1_999_999)), false, `"2001-09-09T01:46:40.001Z"`},
		{must.Get(structpb.NewStruct(map[string]any{"b": []any{1, "x", nil, true}, "a": map[string]any{},
			"c": 2.25}))(t), false, `{"a":{},"b":[1,"x",null,true],"c":2.25}`},
		{nested, false, `{"name":"<a&b>\u001b\"","field":[{"number":7,"label":"LABEL_REPEATED","json_name":"x",` +
			`"proto3_optional":false}],"reserved_name":["a","b"]}`},
	} {
		got, err := MarshalJSON(c.m, c.defaults)
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s is %s, %v, want %s", c.m.ProtoReflect().Descriptor().FullName(), got, err, c.want)
		}
	}
	// Programs may send what this package or package protojson writes.
	typ := must.Get(protoregistry.GlobalTypes.FindMessageByName("google.protobuf.DescriptorProto"))(t)
	ours := must.Get(MarshalJSON(nested, true))(t)
	theirs := must.Get(protojson.Marshal(nested))(t)
	for _, text := range [][]byte{ours, theirs} {
		m := typ.New().Interface()
		if err := UnmarshalJSON(text, m, MaxFields); err != nil || !proto.Equal(m, nested) {
			t.Errorf("%s is read as %v, %v", text, m, err)
		}
	}
}
