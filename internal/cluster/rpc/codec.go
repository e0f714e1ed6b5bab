package rpc

import (
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

const (
	zstdName = "zstd"
	// compressFrom is the smallest size at which compression usually saves bytes.
	compressFrom = 96
	// window bounds the memory of a decoder, and how far an encoder looks back.
	window = 1 << 20
	// maxFields bounds the fields of a message. A list of copies that fills maxMessage has some 50,000.
	maxFields = 1 << 16
)

// codec is protobuf. It counts messages that cannot be decoded.
type codec struct{ counts *counters }

// Name returns Connect's name for binary protobuf.
func (codec) Name() string { return "proto" }

// Marshal encodes.
func (codec) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

// Unmarshal decodes any bytes safely.
func (c codec) Unmarshal(b []byte, m any) error {
	if err := inbound.Unmarshal(b, m.(proto.Message), maxFields); err != nil {
		c.counts.refuse(Malformed)
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// A decompressor is the library's decoder with the methods that Connect needs. It starts no
// goroutine and refuses windows larger than our agents use. It stops at the message limit. Connect
// would read a message that is too large to its end to report the size, and a megabyte can
// decompress to many gigabytes.
type decompressor struct {
	zstd *zstd.Decoder
	left int
}

func newDecompressor() connect.Decompressor {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(2*window),
		// Otherwise the library decompresses small input at once, whatever the result's size.
		zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		panic(err) // the options are constants
	}
	return &decompressor{zstd: d}
}

// Read decompresses.
func (d *decompressor) Read(b []byte) (int, error) {
	if d.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := d.zstd.Read(b[:min(len(b), d.left)])
	d.left -= n
	return n, err
}

// Close releases the source. The decoder is used again.
func (d *decompressor) Close() error { return d.zstd.Reset(nil) }

// Reset starts to read another source.
func (d *decompressor) Reset(r io.Reader) error {
	d.left = maxMessage + 1
	return d.zstd.Reset(r)
}

func newCompressor() connect.Compressor {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}
