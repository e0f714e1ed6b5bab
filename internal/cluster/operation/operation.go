// Package operation answers: how does a request reach another agent that has no call of its own?
//
//	an operator's request, a question for a record, "I leave" -> Ask -> Call -> the other agent, by its method
//
// Only the caller and the agent that answers know the methods and the encodings of their requests and responses.
package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	// maxMethod bounds the letters A-Z and a-z of a method.
	maxMethod = 64
	// maxProblem bounds the bytes of the error in an answer, and maxCode those of its code.
	maxProblem = 16 << 10
	maxCode    = 64
)

// Call carries a request and a response, of at most rpc.MaxData bytes each.
var Call = rpc.Method[pb.OperateRequest, pb.OperateResponse]{Call: rpc.CallOperate, Request: checkRequest,
	Response: func(_ *pb.OperateRequest, r *pb.OperateResponse) error { return checkResponse(r) }}

func checkRequest(q *pb.OperateRequest) error {
	if q.Method == "" || len(q.Method) > maxMethod || strings.ContainsFunc(q.Method, notLetter) {
		return rpc.Malformedf("method %.80q", q.Method)
	}
	if len(q.Request) > rpc.MaxData {
		return fmt.Errorf("%w: request of %d octets", rpc.ErrTooLarge, len(q.Request))
	}
	return nil
}

func notLetter(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }

func checkResponse(r *pb.OperateResponse) error {
	switch {
	case len(r.Error) > maxProblem:
		return fmt.Errorf("%w: error of %d octets", rpc.ErrTooLarge, len(r.Error))
	case len(r.Response) > rpc.MaxData:
		return fmt.Errorf("%w: response of %d octets", rpc.ErrTooLarge, len(r.Response))
	case len(r.Code) > maxCode:
		return fmt.Errorf("%w: code of %d octets", rpc.ErrTooLarge, len(r.Code))
	}
	return nil
}

// A Failure is what an agent says about a request that it could not carry out, for people.
type Failure string

func (f Failure) Error() string { return string(f) }

// Ask passes a request on to an agent. An error of that agent about the request is a Failure. After any other error the
// request may have been carried out.
func Ask(ctx context.Context, p *rpc.Peer, method string, request []byte) (response []byte, err error) {
	r, err := Call.Ask(ctx, p, &pb.OperateRequest{Method: method, Request: request})
	switch {
	case err != nil:
		return nil, err
	case r.Error != "":
		return nil, Failure(r.Error)
	}
	return r.Response, nil
}

// A Handler carries out a request of another agent. Its rpc.ErrAgain reaches that agent as it is, any other error as a
// Failure.
type Handler func(ctx context.Context, from rpc.Caller, method string, request []byte) (response []byte, err error)

// Serve makes a server answer requests, before it runs.
func Serve(s *rpc.Server, do Handler) {
	Call.Serve(s, func(ctx context.Context, from rpc.Caller, q *pb.OperateRequest) (*pb.OperateResponse, error) {
		return answer(do(ctx, from, q.Method, q.Request))
	})
}

// answer cuts the text of a long problem, and leaves out of it what is not UTF-8. Its error is an rpc.ErrAgain, or a
// response that is too large.
func answer(response []byte, problem error) (*pb.OperateResponse, error) {
	if errors.Is(problem, rpc.ErrAgain) {
		return nil, problem
	}
	if problem != nil {
		text := problem.Error()
		return &pb.OperateResponse{Error: strings.ToValidUTF8(text[:min(len(text), maxProblem)], "")}, nil
	}
	r := &pb.OperateResponse{Response: response}
	if err := checkResponse(r); err != nil {
		return nil, fmt.Errorf("the answer is invalid: %v", err) // a failure of this agent, and not of the caller
	}
	return r, nil
}
