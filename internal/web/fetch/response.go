package fetch

import (
	"io"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Values of Response.Truncated, as WARC-Truncated has them (WARC/1.1, 5.13).
const (
	TruncatedLength     = "length"
	TruncatedTime       = "time"
	TruncatedDisconnect = "disconnect"
)

// Response is how one request ended: an HTTP response (Failure is nil),
// complete or truncated, or a Failure. One goroutine owns it, and calls
// Release when done with all that it lent.
type Response struct {
	URL weburl.URL
	// Addr is the server's address; invalid where nothing was dialled or a
	// proxy found the server.
	Addr     netip.AddrPort
	Began    time.Time
	Duration time.Duration // from Began to the last byte
	// Request is the request's exact bytes (without Proxy-Authorization,
	// which is a secret between us and the proxy).
	Request []byte
	Reused  bool // sent over a kept connection
	Resumed bool // over one whose TLS session goes on with an earlier one's
	// Stale: the Failure is that a kept connection ended before it gave a byte,
	// or gave bytes before the server had the request. It says little about
	// the URL. The connection is closed, so another try goes over a new one.
	Stale   bool
	Status  int // 0 with a Failure
	Proto   string
	Header  Header
	HeadLen int // bytes of Wire that are status line and header
	// Wire is what came; never nil. With a Failure it holds the bytes that
	// came before, if any.
	Wire *Wire
	// Truncated is "" for a complete response, else one of the constants.
	Truncated string
	Failure   *Failure
	// Note lists, separated by commas, what was odd: bad-content-length,
	// broken-chunk, early-close, reset, excess-bytes, no-trailer-end,
	// timeout-idle, timeout-total, unasked-bytes (on the connection that was
	// kept for this request, which was closed for it).
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

// Release gives all memory and files back. What Request, Wire, Payload and
// Decode lent must not be used after it; Header and the rest may. Releasing
// twice does no harm.
func (r *Response) Release() {
	r.Wire.release()
	r.request.release()
	r.decoded.release()
	r.Request, r.request, r.decoded = nil, nil, nil
}

// Payload reads the body without the chunked coding, its content coding as it
// came. A body that was cut short ends early without an error: Truncated
// tells. The reader also implements io.ByteReader and io.WriterTo; its errors
// are those of the spill file.
func (r *Response) Payload() io.Reader {
	p := &payload{wire: r.Wire, off: int64(r.HeadLen), chunked: r.chunked}
	if b, ok := r.Wire.Bytes(); ok {
		p.win, p.off = b[min(r.HeadLen, len(b)):], int64(len(b))
	}
	return p
}

// payload walks the wire: a window of it is in memory, within the window the
// next stretch of payload.
type payload struct {
	wire    *Wire
	off     int64  // of the wire's byte after win
	win     []byte // bytes in memory, not yet looked at
	data    []byte // payload, not yet read
	buf     []byte // memory of win where the wire is spilled
	chunked bool
	chunks  chunks
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
		data, n := p.chunks.next(p.win)
		if n == 0 && data == nil {
			return io.EOF // done or broken
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
