package rpc

import (
	"context"
	"net/http"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// A later is a connection to an agent whose version does not know the calls.
type later struct{ p *Peer }

func (l later) Do(req *http.Request) (*http.Response, error) {
	req.URL.Path += "OfALaterVersion"
	return l.p.Do(req)
}

// An agent that asks for its share learns that the other agent is of a version that cannot divide the rate.
func TestShareOfOldVersion(t *testing.T) {
	l, _ := serve(t, nil, Handlers{Share: func(context.Context, Caller, ShareAsk) (ShareGrant, error) {
		return ShareGrant{Share: 0.5, Agents: 2}, nil
	}})
	p := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr())
	if g, err := p.Share(t.Context(), ShareAsk{Seq: 1, Want: 1}); err != nil || g.Share != 0.5 || Unimplemented(err) {
		t.Errorf("%+v, %v", g, err)
	}
	p.calls = pb.NewExchangeClient(later{p}, "http://agent")
	if g, err := p.Share(t.Context(), ShareAsk{Seq: 2, Want: 1}); !Unimplemented(err) {
		t.Errorf("%+v, %v: want an error of a call that is not known", g, err)
	}
}
