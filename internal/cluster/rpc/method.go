package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"connectrpc.com/connect"
)

// A Method is a call as its feature sees it: the messages, and what is right in them. The feature serves it at its
// Server and asks it of a Peer; the zero checks let everything pass. What the messages cost, who may send them and how
// long they may take is the transport's, see Call.
type Method[Req, Res any] struct {
	Call Call
	// Request returns ErrMalformed or ErrTooLarge for a request that no handler may see. Response does the same for
	// the answer to a request.
	Request  func(q *Req) error
	Response func(q *Req, r *Res) error
}

// A Handler executes a call. The Server calls it concurrently, with a checked request whose memory it owns. A
// *Refusal, an ErrAgain or a *NotLeader reaches the caller as it is. Any other error tells the caller that this process
// has failed.
type Handler[Req, Res any] func(ctx context.Context, from Caller, q *Req) (*Res, error)

// Serve makes a server answer the call, before it runs. A call that nothing serves is answered with ErrAgain.
func (m Method[Req, Res]) Serve(s *Server, do Handler[Req, Res]) {
	s.handlers[m.Call] = connect.NewUnaryHandlerSimple(m.Call.path(), func(ctx context.Context, q *Req) (*Res, error) {
		if m.Request != nil {
			if err := m.Request(q); err != nil {
				s.counts.damaged(err)
				return nil, answer(err)
			}
		}
		s.counts.calls[m.Call].Add(1)
		r, err := do(ctx, ctx.Value(callerKey{}).(Caller), q)
		return r, s.failed(m.Call, err)
	}, s.options(m.Call)...)
}

// Ask makes the call, and returns an answer that is right.
func (m Method[Req, Res]) Ask(ctx context.Context, p *Peer, q *Req) (r *Res, err error) {
	err = p.call(ctx, m.Call, func(ctx context.Context) error {
		answer, err := client[Req, Res](p, m.Call).CallUnary(ctx, connect.NewRequest(q))
		if err != nil {
			return err
		}
		if m.Response != nil {
			if err := m.Response(q, answer.Msg); err != nil {
				return err
			}
		}
		r = answer.Msg
		return nil
	})
	return r, err
}

// A Stream is a call with many requests and one answer, like a Method. The receiver holds the sender back.
type Stream[Req, Res any] struct{ Call Call }

// Serve makes a server answer the call. receive returns the next request, and io.EOF after the last one; its messages
// are not checked.
func (m Stream[Req, Res]) Serve(
	s *Server, do func(ctx context.Context, from Caller, receive func() (*Req, error)) (*Res, error),
) {
	s.handlers[m.Call] = connect.NewClientStreamHandlerSimple(m.Call.path(),
		func(ctx context.Context, stream *connect.ClientStream[Req]) (*Res, error) {
			s.counts.calls[m.Call].Add(1)
			receive := func() (*Req, error) {
				if stream.Receive() {
					return stream.Msg(), nil
				}
				return nil, cmp.Or(stream.Err(), io.EOF)
			}
			r, err := do(ctx, ctx.Value(callerKey{}).(Caller), receive)
			return r, s.failed(m.Call, err)
		}, s.options(m.Call)...)
}

// Ask makes the call. write sends the requests; if send returns io.EOF, the receiver has answered already, and says
// why. check refuses a wrong answer.
func (m Stream[Req, Res]) Ask(
	ctx context.Context, p *Peer, write func(send func(*Req) error) error, check func(*Res) error,
) error {
	return p.call(ctx, m.Call, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // also after an error of our own
		stream, err := client[Req, Res](p, m.Call).CallClientStreamSimple(ctx)
		if err != nil {
			return err
		}
		if err := write(stream.Send); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r, err := stream.CloseAndReceive()
		if err != nil {
			return err
		}
		return check(r)
	})
}

// client returns what makes a call to a Peer.
func client[Req, Res any](p *Peer, call Call) *connect.Client[Req, Res] {
	if c, ok := p.clients[call].Load().(*connect.Client[Req, Res]); ok {
		return c
	}
	c := connect.NewClient[Req, Res](p, p.url+call.path(), p.options...)
	p.clients[call].Store(c)
	return c
}

// failed counts and converts the error of a handler.
func (s *Server) failed(call Call, err error) error {
	if err == nil {
		return nil
	}
	s.counts.errors[call].Add(1)
	if errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge) {
		s.counts.damaged(err)
	}
	return answer(err)
}

// damaged counts an error of a check.
func (c *counters) damaged(err error) {
	if errors.Is(err, ErrTooLarge) {
		c.refuse(TooLarge)
	} else {
		c.refuse(Malformed)
	}
}

// options returns the options of a handler.
func (s *Server) options(call Call) []connect.HandlerOption {
	return append(slices.Clip(s.common), connect.WithReadMaxBytes(cmp.Or(sizes[call], maxMessage)))
}
