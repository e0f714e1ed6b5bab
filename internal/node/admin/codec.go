package admin

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

// A codec reads messages of bounded memory. Connect's own would read any that are small enough in bytes.
type codec string

// codecs are the encodings of messages, by Connect's names.
var codecs = []codec{"proto", "json", "json; charset=utf-8"}

func (c codec) Name() string   { return string(c) }
func (c codec) IsBinary() bool { return c == codecs[0] }

func (c codec) Marshal(m any) ([]byte, error) {
	if c.IsBinary() {
		return proto.Marshal(m.(proto.Message))
	}
	return protojson.Marshal(m.(proto.Message))
}

func (c codec) Unmarshal(b []byte, m any) error {
	if c.IsBinary() {
		return inbound.Unmarshal(b, m.(proto.Message), inbound.MaxFields)
	}
	return inbound.UnmarshalJSON(b, m.(proto.Message), inbound.MaxFields)
}
