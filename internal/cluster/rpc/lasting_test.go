package rpc

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLasting: agents that cannot connect are told why, and that the error lasts. The error for an
// absent agent does not last.
func TestLasting(t *testing.T) {
	ours, theirs := bundles(t, "a1", "a2"), bundles(t, "a2")
	keyed, _ := serve(t, ours["a1"], Handlers{})
	bare, _ := serve(t, nil, Handlers{})
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	hello := Hello{Agent: Agent{Name: "a2", Instance: ID{9, 2}, Boot: 3, Capacity: 1, Addr: "127.0.0.1:1", State: 1}}
	for _, c := range []struct {
		what string
		keys *Keys
		addr string
		want error
		last bool
	}{
		{"another authority's keys", theirs["a2"], keyed.Addr(), ErrStranger, true},
		{"none, of an agent with keys", nil, keyed.Addr(), ErrKeysThere, true},
		{"keys, of an agent without", ours["a2"], bare.Addr(), ErrKeysHere, true},
		{"of another program, with keys", ours["a2"], web.Listener.Addr().String(), ErrUnreachable, false},
		{"no agent there", nil, gone.Addr().String(), ErrUnreachable, false},
		{"not ready", ours["a2"], keyed.Addr(), ErrAgain, false},
	} {
		_, err := client(t, c.keys, caller("a2"), nil).Hello(t.Context(), c.addr, hello)
		if !errors.Is(err, c.want) || Lasting(err) != c.last {
			t.Errorf("%s: lasting %v: %v", c.what, Lasting(err), err)
		}
	}
}
