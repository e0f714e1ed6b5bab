// Package devtools answers: what does a browser process say, and how is it told what to do?
//
//	Call -> pipe -> browser -> pipe -> answer | event -> Subscribe
//
// It speaks the Chrome DevTools Protocol over the two pipes of --remote-debugging-pipe, so that no other process of the
// machine can steer the browser. The bytes come from a process that a hostile page may have taken over: a message has a
// bound, and so has each queue of events. An event that finds its queue full is dropped, and counted.
package devtools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// ErrClosed is the error of a call to a browser that has ended.
var ErrClosed = errors.New("the browser has ended")

const (
	maxMessage = 128 << 20 // bytes of one message of the browser; a screenshot of a long page has some 20 MB
	maxEvents  = 256       // events of one kind that wait for their reader
)

// A Conn is the connection to one browser process. Safe for concurrent use.
type Conn struct {
	pipe    *chromedp.PipeConn
	dropped atomic.Int64

	mu     sync.Mutex // guards the rest
	next   int64
	calls  map[int64]chan *cdproto.Message // each has room for its answer
	events map[kind]map[chan jsonv2.Value]struct{}
	closed chan struct{}
	err    error // why it is closed
}

// kind is an event of one session.
type kind struct {
	session target.SessionID
	method  string
}

// New returns a connection that reads what the browser writes from r, and writes to w. The caller calls Run.
func New(r io.ReadCloser, w io.WriteCloser) *Conn {
	return &Conn{pipe: chromedp.NewPipeConn(&bounded{ReadCloser: r}, w), calls: map[int64]chan *cdproto.Message{},
		events: map[kind]map[chan jsonv2.Value]struct{}{}, closed: make(chan struct{})}
}

// Run reads until the browser ends or Close is called. Then all calls have failed. It returns why it has ended, never
// nil.
func (c *Conn) Run() error {
	for {
		m := new(cdproto.Message)
		err := c.pipe.Read(context.Background(), m)
		if err != nil {
			c.end(err)
			return err
		}
		c.mu.Lock()
		switch waits := c.calls[m.ID]; {
		case m.ID == 0:
			c.publish(kind{m.SessionID, string(m.Method)}, m.Params)
		case waits != nil:
			delete(c.calls, m.ID)
			waits <- m
		}
		c.mu.Unlock()
	}
}

// publish hands an event to its readers. The caller holds mu.
func (c *Conn) publish(k kind, params jsonv2.Value) {
	for to := range c.events[k] {
		select {
		case to <- params:
		default:
			c.dropped.Add(1)
		}
	}
}

func (c *Conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return
	default:
	}
	c.err = fmt.Errorf("%w: %w", ErrClosed, err)
	close(c.closed)
	for _, readers := range c.events {
		for r := range readers {
			close(r)
		}
	}
	c.calls, c.events = nil, nil
}

// Close closes both pipes, which ends the browser and Run.
func (c *Conn) Close() error { return c.pipe.Close() }

// Closed is closed when the browser has ended.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Dropped returns how many events found their queue full.
func (c *Conn) Dropped() int64 { return c.dropped.Load() }

// Session returns the session with an identifier. The empty one is the browser's own. It implements cdp.Session.
func (c *Conn) Session(id target.SessionID) *Session { return &Session{c, id} }

// A Session is a part of the browser, such as a tab. Safe for concurrent use.
type Session struct {
	conn *Conn
	id   target.SessionID
}

// Call sends a command and decodes its answer into result. The errors are those of ctx, ErrClosed, and what the browser
// answers.
func (s *Session) Call(ctx context.Context, method string, params, result any) error {
	p, err := jsonv2.Marshal(params, chromedp.DefaultMarshalOptions)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	c, answer := s.conn, make(chan *cdproto.Message, 1)
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return fmt.Errorf("%s: %w", method, c.err)
	}
	c.next++
	id := c.next
	c.calls[id] = answer
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}
	if err := c.pipe.Write(ctx, &cdproto.Message{ID: id, SessionID: s.id, Method: cdproto.MethodType(method),
		Params: p}); err != nil {
		forget()
		return fmt.Errorf("%s: %w: %w", method, ErrClosed, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %w", method, m.Error)
		}
		if result == nil || len(m.Result) == 0 {
			return nil
		}
		if err := jsonv2.Unmarshal(m.Result, result, chromedp.DefaultUnmarshalOptions); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		forget()
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case <-c.closed:
		return fmt.Errorf("%s: %w", method, c.err)
	}
}

// Subscribe returns the events of a kind from now on, up to the end of the browser or of stop. At most 256 wait for
// their reader.
func (s *Session) Subscribe(method string) (events <-chan jsonv2.Value, stop func()) {
	c, k, to := s.conn, kind{s.id, method}, make(chan jsonv2.Value, maxEvents)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		close(to)
		return to, func() {}
	}
	if c.events[k] == nil {
		c.events[k] = map[chan jsonv2.Value]struct{}{}
	}
	c.events[k][to] = struct{}{}
	return to, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, open := c.events[k][to]; open {
			delete(c.events[k], to)
			if len(c.events[k]) == 0 {
				delete(c.events, k)
			}
			close(to)
		}
	}
}

// bounded fails when a message is longer than maxMessage. A message ends with a zero byte.
type bounded struct {
	io.ReadCloser
	size int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if end := bytes.LastIndexByte(p[:n], 0); end >= 0 {
		b.size = n - end - 1
	} else {
		b.size += n
	}
	if b.size > maxMessage {
		return 0, fmt.Errorf("a message of the browser is over %d bytes", maxMessage)
	}
	return n, err
}
