package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Received describes a response that another agent has fetched.
type Received struct {
	URL       weburl.URL
	Addr      netip.Addr // of the server; the zero Addr means unknown
	Began     time.Time
	Duration  time.Duration
	Request   []byte
	Secure    Secure
	Truncated string // as in Response
	Size      int64  // of the wire in bytes
}

// ErrNotResponse means that bytes are not what Fetch takes for an HTTP response.
var ErrNotResponse = errors.New("not an HTTP response")

// Replay makes a Response of the bytes of a Wire that another agent has received. It reads exactly x.Size bytes. The
// error wraps ErrNotResponse if they are no whole header and body; otherwise it is of reading or of the spill file.
func (f *Fetcher) Replay(x Received, wire io.Reader) (r *Response, err error) {
	r = &Response{URL: x.URL, Addr: netip.AddrPortFrom(x.Addr, 0), Began: x.Began, Duration: x.Duration,
		Request: x.Request, Secure: x.Secure, Truncated: x.Truncated, Wire: &Wire{spill: &f.spill}}
	defer func() {
		if err != nil {
			r.Release()
			r = nil
		}
	}()
	if x.Size <= 0 {
		return r, ErrNotResponse
	}
	w := r.Wire
	w.reserve(x.Size)
	for left := x.Size; left > 0; {
		b, err := w.room(r.HeadLen == 0)
		if err != nil {
			return r, err
		}
		n, err := wire.Read(b[:min(int64(len(b)), left)])
		w.n += n
		left -= int64(n)
		if r.HeadLen == 0 {
			if herr := r.head(f.cfg.MaxHeader); herr != nil {
				return r, herr
			}
		}
		if err == io.EOF && left > 0 {
			err = fmt.Errorf("%w: %d bytes are missing", ErrNotResponse, left)
		}
		if err != nil && err != io.EOF {
			return r, err
		}
	}
	if r.HeadLen == 0 {
		return r, fmt.Errorf("%w: its header has no end", ErrNotResponse)
	}
	r.chunked = frameOf(r).kind == byChunks
	return r, nil
}

// head reads the header if the Wire has it to its end.
func (r *Response) head(most int) error {
	b, _ := r.Wire.Bytes()
	end := headEnd(b, 0)
	if end < 0 && len(b) <= most {
		return nil
	}
	if end < 0 || end > most {
		return fmt.Errorf("%w: the header is too large", ErrNotResponse)
	}
	line, fields, _ := strings.Cut(string(b[:end]), "\n")
	proto, _, _, status, known := message.ParseStatus(line)
	h, few := message.ParseFields(fields)
	if !known || !few {
		return fmt.Errorf("%w: status line %.80q", ErrNotResponse, line)
	}
	r.Status, r.Proto, r.Header, r.HeadLen = status, proto, h, end
	return nil
}
