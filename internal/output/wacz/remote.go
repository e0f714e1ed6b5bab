package wacz

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	blockSize  = 64 << 10
	maxFetch   = 4 << 20 // bytes of one request
	maxBlocks  = 512     // that are kept: 32 MiB
	maxHops    = 5       // redirects of a request
	maxRequest = time.Minute
)

// ErrNoRanges means that a server does not send parts of a file.
var ErrNoRanges = errors.New("the server does not send parts of the file (HTTP range requests); download the WACZ, " +
	"or copy it to a server that does")

// A remote is a file behind HTTP range requests. It reads in blocks, and keeps the last 512 blocks. When its reader
// goes on where the last request ended, the requests become longer, up to 4 MiB. It is safe for concurrent use.
type remote struct {
	ctx    context.Context // ends all requests: io.ReaderAt has none
	client *http.Client
	first  string // the URL that the user has named
	size   int64
	tag    string // ETag of the file; empty: the server has none

	mu     sync.Mutex
	to     string // the URL to which the first one redirects
	blocks map[int64]*list.Element
	recent *list.List // of block, the latest first
	end    int64      // the block at which the last request ended
	ahead  int64      // blocks of the last request
}

type block struct {
	number int64
	bytes  []byte
}

// openRemote asks for the end of the file, which tells its size.
func openRemote(ctx context.Context, name string) (*remote, error) {
	r := &remote{ctx: ctx, first: name, to: name, blocks: map[int64]*list.Element{}, recent: list.New(), size: -1}
	r.client = &http.Client{Timeout: maxRequest, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxHops {
			return fmt.Errorf("more than %d redirects", maxHops)
		}
		return nil
	}}
	const tail = 2 * blockSize
	b, from, err := r.get(fmt.Sprintf("bytes=-%d", tail), tail)
	if err != nil {
		return nil, r.wrap(err)
	}
	if from+int64(len(b)) != r.size {
		return nil, r.wrap(errors.New("the server sent another part than the end of the file"))
	}
	skip := (blockSize - from%blockSize) % blockSize // to the first whole block
	r.keep((from+skip)/blockSize, b[min(skip, int64(len(b))):])
	return r, nil
}

// wrap names the file in an error, without a password.
func (r *remote) wrap(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok { // it repeats the URL
		err = e.Err
	}
	return &fs.PathError{Op: "read", Path: WithoutPassword(r.first), Err: err}
}

// WithoutPassword returns the name of a file or URL for people.
func WithoutPassword(name string) string {
	u, err := url.Parse(name)
	switch {
	case err == nil && u.User != nil:
		return u.Redacted()
	case err != nil && strings.Contains(name, "@"):
		return "the URL"
	}
	return name
}

// get makes one request for at most n bytes. from is where the bytes begin.
func (r *remote) get(span string, n int64) (b []byte, from int64, err error) {
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	b, from, err = r.ask(to, span, n)
	if _, refused := errors.AsType[statusError](err); refused && to != r.first {
		b, from, err = r.ask(r.first, span, n) // the redirect may have ended
	}
	return b, from, err
}

// A statusError is an HTTP status that is no success.
type statusError int

func (s statusError) Error() string {
	return fmt.Sprintf("the server answered %d %s", int(s), http.StatusText(int(s)))
}

func (r *remote) ask(to, span string, n int64) (b []byte, from int64, err error) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, to, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Range", span)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
		return nil, 0, ErrNoRanges
	case resp.StatusCode != http.StatusPartialContent:
		return nil, 0, statusError(resp.StatusCode)
	case resp.Header.Get("Content-Encoding") != "":
		return nil, 0, errors.New("the server compresses parts of the file; it must send them as they are")
	}
	var last, size int64
	if k, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &last, &size); k != 3 ||
		err != nil || from < 0 || last < from || last >= size || last-from >= n {
		return nil, 0, fmt.Errorf("the server sent %.80q, which is not the part that was asked for",
			resp.Header.Get("Content-Range"))
	}
	if err := r.note(resp, size); err != nil {
		return nil, 0, err
	}
	b = make([]byte, last-from+1)
	_, err = io.ReadFull(resp.Body, b)
	return b, from, err
}

// note keeps what the first response says of the file. A later one must agree.
func (r *remote) note(resp *http.Response, size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch tag := resp.Header.Get("ETag"); {
	case r.size < 0:
		r.size, r.tag = size, tag
	case size != r.size || tag != r.tag:
		return errors.New("the file on the server has changed; open it again")
	}
	r.to = resp.Request.URL.String()
	return nil
}

// keep keeps blocks that follow each other. The last may be short at the end of the file.
func (r *remote) keep(number int64, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; len(b) > 0; number++ {
		n := min(len(b), blockSize)
		if n < blockSize && number*blockSize+int64(n) != r.size {
			return
		}
		if r.blocks[number] == nil {
			r.blocks[number] = r.recent.PushFront(&block{number, bytes.Clone(b[:n])})
		}
		b = b[n:]
	}
	for len(r.blocks) > maxBlocks {
		oldest := r.recent.Back()
		delete(r.blocks, r.recent.Remove(oldest).(*block).number)
	}
}

// kept returns a block, or how many blocks to ask for, up to the block `end`.
func (r *remote) kept(number, end int64) (b []byte, ask int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.blocks[number]; e != nil {
		r.recent.MoveToFront(e)
		return e.Value.(*block).bytes, 0
	}
	if r.ahead *= 2; number != r.end {
		r.ahead = 1
	}
	ask = min(max(end-number, r.ahead), maxFetch/blockSize, (r.size-1)/blockSize+1-number)
	for i := int64(1); i < ask; i++ {
		if r.blocks[number+i] != nil {
			ask = i
		}
	}
	r.end, r.ahead = number+ask, ask
	return nil, ask
}

// ReadAt reads from the blocks that are kept, and asks the server for others.
func (r *remote) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, r.wrap(fs.ErrInvalid)
	}
	for n < len(p) && off < r.size {
		number := off / blockSize
		b, ask := r.kept(number, (min(off+int64(len(p)-n), r.size)-1)/blockSize+1)
		if b == nil {
			from, end := number*blockSize, min((number+ask)*blockSize, r.size)
			var at int64
			b, at, err = r.get(fmt.Sprintf("bytes=%d-%d", from, end-1), end-from)
			if err == nil && (at != from || int64(len(b)) != end-from) {
				err = errors.New("the server sent another part of the file")
			}
			if err != nil {
				return n, r.wrap(err)
			}
			r.keep(number, b)
		}
		k := copy(p[n:], b[off-number*blockSize:])
		n, off = n+k, off+int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
