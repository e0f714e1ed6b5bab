package inbound

import (
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// Codecs returns the option by which a handler reads messages of at most MaxFields fields. Connect's own codecs would
// read any that are small enough in bytes.
func Codecs() connect.HandlerOption {
	var list []connect.HandlerOption
	for _, name := range []codec{binary, "json", "json; charset=utf-8"} {
		list = append(list, connect.WithCodec(name))
	}
	return connect.WithHandlerOptions(list...)
}

// A codec is an encoding of messages, by Connect's name. All but binary are JSON.
type codec string

const binary codec = "proto"

func (c codec) Name() string   { return string(c) }
func (c codec) IsBinary() bool { return c == binary }

func (c codec) Marshal(m any) ([]byte, error) {
	if c.IsBinary() {
		return proto.Marshal(m.(proto.Message))
	}
	return MarshalJSON(m.(proto.Message), false)
}

func (c codec) Unmarshal(b []byte, m any) error {
	if c.IsBinary() {
		return Unmarshal(b, m.(proto.Message), MaxFields)
	}
	return UnmarshalJSON(b, m.(proto.Message), MaxFields)
}
