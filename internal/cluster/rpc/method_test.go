package rpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// What a check of a Method refuses reaches no handler and no asker, and it is counted once by its reason.
func TestMethodChecks(t *testing.T) {
	for _, c := range []struct {
		err    error
		reason string
		status int
	}{{rpc.ErrMalformed, "malformed", 400}, {rpc.ErrTooLarge, "too-large", 429}} {
		l, err := rpc.Listen(rpc.System, "127.0.0.1:0", nil)
		must.Do(t, err)
		s := rpc.NewServer(l, rpc.ServerConfig{Crawl: func() rpc.ID { return theCrawl }})
		reached := 0
		checked := rpc.Method[pb.PushRequest, pb.PushResponse]{
			Call: rpc.CallPush,
			Request: func(q *pb.PushRequest) error {
				if q.Count == 2 {
					return c.err
				}
				return nil
			},
			Response: func(*pb.PushRequest, *pb.PushResponse) error { return c.err },
		}
		checked.Serve(s, func(context.Context, rpc.Caller, *pb.PushRequest) (*pb.PushResponse, error) {
			reached++
			return new(pb.PushResponse), nil
		})
		run(t, l, s)
		body := encoded(t, &pb.PushRequest{Count: 2})
		status, text, err := post(t, plain(t), l, raw{call: "Push", who: who(caller("a1")), body: body})
		if status != c.status || err != nil || reached != 0 || s.Counts().Refused[c.reason] != 1 {
			t.Errorf("a request that is %v: status %d, want %d, %s, %v; %d reached; %v", c.err, status, c.status, text,
				err, reached, s.Counts().Refused)
		}
		answer, err := checked.Ask(t.Context(), peer(t, "a1", l), &pb.PushRequest{Count: 1})
		if answer != nil || !errors.Is(err, c.err) || reached != 1 {
			t.Errorf("an answer that is %v: %v, %v; %d reached", c.err, answer, err, reached)
		}
	}
}
