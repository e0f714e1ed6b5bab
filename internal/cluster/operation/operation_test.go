package operation

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// TestHostile: requests and responses beyond their bounds are refused, and those at their bounds are not.
func TestHostile(t *testing.T) {
	full, tooMuch := make([]byte, rpc.MaxData), make([]byte, rpc.MaxData+1)
	for want, qs := range map[error][]*pb.OperateRequest{
		nil: {{Method: "Pause"}, {Method: strings.Repeat("M", 64), Request: full}},
		rpc.ErrMalformed: {{}, {Method: "Pause/"}, {Method: "pause2"}, {Method: "päuse"},
			{Method: strings.Repeat("P", 65)}},
		rpc.ErrTooLarge: {{Method: "Pause", Request: tooMuch}},
	} {
		for _, q := range qs {
			if err := Call.Request(q); !errors.Is(err, want) {
				t.Errorf("%.80v: %v, want %v", q, err, want)
			}
		}
	}
	for want, rs := range map[error][]*pb.OperateResponse{
		nil:             {{}, {Response: full, Error: strings.Repeat("e", 16<<10)}},
		rpc.ErrTooLarge: {{Response: tooMuch}, {Error: strings.Repeat("e", 16<<10+1)}},
	} {
		for _, r := range rs {
			if err := Call.Response(nil, r); !errors.Is(err, want) {
				t.Errorf("%.80v: %v, want %v", r, err, want)
			}
		}
	}
}

// TestAnswer: a long error is cut, and a response beyond its bound is a failure of the answering agent.
func TestAnswer(t *testing.T) {
	r, err := answer([]byte("done"), nil)
	if err != nil || string(r.Response) != "done" || r.Error != "" {
		t.Errorf("%v, %v", r, err)
	}
	r, err = answer(nil, errors.New("\xff"+strings.Repeat("é", 16<<10)))
	if want := strings.Repeat("é", 8<<10-1); err != nil || r.Error != want {
		t.Errorf("%d octets of an error, want %d, %v", len(r.GetError()), len(want), err)
	}
	_, err = answer(make([]byte, rpc.MaxData+1), nil)
	if err == nil || errors.Is(err, rpc.ErrTooLarge) || errors.Is(err, rpc.ErrMalformed) {
		t.Errorf("a response that is too large: %v", err)
	}
}

// TestAgain: "ask again later" reaches the callers of the methods that may say so. All others get it as a text.
func TestAgain(t *testing.T) {
	h := handler(func(context.Context, rpc.Caller, string, []byte) ([]byte, error) { return nil, rpc.ErrAgain },
		[]string{"Left"})
	if r, err := h(t.Context(), rpc.Caller{}, &pb.OperateRequest{Method: "Left"}); !errors.Is(err, rpc.ErrAgain) {
		t.Errorf("Left: %v, %v", r, err)
	}
	r, err := h(t.Context(), rpc.Caller{}, &pb.OperateRequest{Method: "Pause"})
	if err != nil || r.Error != rpc.ErrAgain.Error() {
		t.Errorf("Pause: %v, %v", r, err)
	}
}

// FuzzOperate: any request and any response is refused, or it is within its bounds.
func FuzzOperate(f *testing.F) {
	f.Add([]byte("\x0a\x05Pause\x12\x01x"), []byte("\x0a\x04done\x12\x02no"))
	form := regexp.MustCompile(`^[A-Za-z]{1,64}$`)
	f.Fuzz(func(t *testing.T, request, response []byte) {
		q, r := new(pb.OperateRequest), new(pb.OperateResponse)
		if proto.Unmarshal(request, q) == nil && Call.Request(q) == nil &&
			(len(q.Request) > rpc.MaxData || !form.MatchString(q.Method)) {
			t.Errorf("%v is let through", q)
		}
		if proto.Unmarshal(response, r) == nil && Call.Response(q, r) == nil &&
			(len(r.Response) > rpc.MaxData || len(r.Error) > 16<<10) {
			t.Errorf("%v is let through", r)
		}
	})
}
