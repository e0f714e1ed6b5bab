package rpc

import (
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"
)

const (
	zstdName = "zstd"
	// compressFrom: what is smaller costs more time than it saves.
	compressFrom = 512
	// window bounds what a decoder remembers, and how far an encoder looks back.
	window = 1 << 20
)

// codec is protobuf, counting what is none.
type codec struct{ counts *counters }

// Name is Connect's for binary protobuf.
func (codec) Name() string { return "proto" }

// Marshal encodes.
func (codec) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

// Unmarshal decodes, and trusts nothing.
func (c codec) Unmarshal(b []byte, m any) error {
	if err := proto.Unmarshal(b, m.(proto.Message)); err != nil {
		c.counts.refuse(Malformed)
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// A decompressor is the library's, with the methods that Connect wants. It
// starts no goroutine, refuses windows that no agent of ours makes, and ends
// where no message goes on: Connect reads what is too large to its end, to say
// how large it is, and a megabyte can be the beginning of many gigabytes.
type decompressor struct {
	zstd *zstd.Decoder
	left int
}

func newDecompressor() connect.Decompressor {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(2*window),
		// Else what is small is decompressed at once and whole, however large it gets.
		zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		panic(err) // the options are constants
	}
	return &decompressor{zstd: d}
}

// Read decompresses.
func (d *decompressor) Read(b []byte) (int, error) {
	if d.left <= 0 {
		return 0, errTooLarge
	}
	n, err := d.zstd.Read(b[:min(len(b), d.left)])
	d.left -= n
	return n, err
}

// Close gives the source back; the decoder is used again.
func (d *decompressor) Close() error { return d.zstd.Reset(nil) }

// Reset begins anew.
func (d *decompressor) Reset(r io.Reader) error {
	d.left = maxMessage + 1
	return d.zstd.Reset(r)
}

func newCompressor() connect.Compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}
