package fetch

import (
	"io"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Values of Response.Truncated. They are the values of WARC-Truncated (WARC/1.1, 5.13).
const (
	TruncatedLength     = "length"
	TruncatedTime       = "time"
	TruncatedDisconnect = "disconnect"
)

// Secure is what a TLS handshake agreed on, in the numbers of crypto/tls. It is zero without TLS.
type Secure struct{ Version, Cipher uint16 }

// Response is how one request ended: an HTTP response (Failure is nil), complete or truncated, or a
// Failure. One goroutine owns it. The owner calls Release when it no longer needs the memory of the
// response.
type Response struct {
	URL weburl.URL
	// Addr is the server's address. It is invalid if nothing was dialled or if a proxy looked it
	// up.
	Addr     netip.AddrPort
	Began    time.Time
	Duration time.Duration // from Began to the last byte
	// Sent is when the request was written; zero: it was not.
	Sent time.Time
	// Request holds the exact bytes of the request, without Proxy-Authorization, which is a secret
	// shared with the proxy.
	Request []byte
	Reused  bool // sent over a kept connection
	Resumed bool // sent over a connection that resumed an earlier TLS session
	Secure  Secure
	// Stale: the Failure came from a kept connection. It ended before its first byte, or sent bytes
	// before the server had the request. The Failure says little about the URL. The connection is
	// closed, so another try uses a new one.
	Stale   bool
	Status  int // 0 with a Failure
	Proto   string
	Header  Header
	HeadLen int // length in bytes of the status line and header in Wire
	// Wire holds the received bytes. It is never nil. With a Failure it holds the bytes that came
	// before the failure, if any. It implements io.ReaderAt.
	Wire *Wire
	// Truncated is "" for a complete response, and else one of the constants above.
	Truncated string
	Failure   *Failure
	// Note lists anomalies, separated by commas: bad-content-length, broken-chunk, early-close,
	// reset, excess-bytes, no-trailer-end, timeout-idle, timeout-total, timeout-rate,
	// unasked-bytes. The last one concerns the connection that was kept for this request; it was
	// closed.
	Note string

	chunked bool
	request *buffer
	decoded *buffer
}

// note adds one annotation.
func (r *Response) note(s string) {
	if r.Note != "" {
		s = r.Note + "," + s
	}
	r.Note = s
}

// Release frees all memory and files. After it, do not use Request, Wire, or what Payload and
// Decode returned. Header and the other fields stay valid. A second call has no effect.
func (r *Response) Release() {
	r.Wire.release()
	r.request.release()
	r.decoded.release()
	r.Request, r.request, r.decoded = nil, nil, nil
}

// Payload returns a reader of the body without the chunked coding; the content coding remains. A
// truncated body ends early without an error; see Truncated. The reader also implements
// io.ByteReader and io.WriterTo. Its errors are those of the spill file.
func (r *Response) Payload() io.Reader {
	p := &payload{wire: r.Wire, off: int64(r.HeadLen), chunked: r.chunked}
	if b, ok := r.Wire.Bytes(); ok {
		p.win, p.off = b[min(r.HeadLen, len(b)):], int64(len(b))
	}
	return p
}

// payload reads the wire. A window of the wire is in memory, and data is the next part of the
// payload in that window.
type payload struct {
	wire    *Wire
	off     int64  // offset in the wire of the byte after win
	win     []byte // bytes in memory that are not parsed yet
	data    []byte // payload that is not read yet
	buf     []byte // memory of win if the wire is in a file
	chunked bool
	chunks  message.Chunks
}

// fill makes data non-empty.
func (p *payload) fill() error {
	for len(p.data) == 0 {
		if len(p.win) == 0 {
			left := p.wire.Size() - p.off
			if left <= 0 {
				return io.EOF
			}
			if p.buf == nil {
				p.buf = make([]byte, min(left, 64<<10))
			}
			p.win = p.buf[:min(left, int64(len(p.buf)))]
			if n, err := p.wire.ReadAt(p.win, p.off); n < len(p.win) {
				p.win = nil
				return err
			}
			p.off += int64(len(p.win))
		}
		if !p.chunked {
			p.data, p.win = p.win, nil
			continue
		}
		data, n := p.chunks.Next(p.win)
		if n == 0 && data == nil {
			return io.EOF // complete or broken
		}
		p.data, p.win = data, p.win[n:]
	}
	return nil
}

func (p *payload) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := p.fill(); err != nil {
		return 0, err
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

func (p *payload) ReadByte() (byte, error) {
	if len(p.data) == 0 {
		if err := p.fill(); err != nil {
			return 0, err
		}
	}
	b := p.data[0]
	p.data = p.data[1:]
	return b, nil
}

func (p *payload) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if err := p.fill(); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(p.data)
		total += int64(n)
		if p.data = p.data[n:]; err != nil {
			return total, err
		}
	}
}
