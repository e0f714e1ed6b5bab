package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var theCrawl = rpc.ID{1, 2, 3}

// issue makes keys of one new cluster, and returns the disk that has them. The names of coordinators begin with c.
func issue(t *testing.T, names ...string) (*testdisk.Mem, map[string]*rpc.Keys) {
	t.Helper()
	mem := testdisk.NewMem()
	a := must.Get(rpc.OpenAuthority(mem, "keys", time.Now()))(t)
	out := map[string]*rpc.Keys{}
	for _, name := range names {
		issue := a.Issue
		if strings.HasPrefix(name, "c") {
			issue = a.IssueCoordinator
		}
		dir, err := issue(name)
		must.Do(t, err)
		if out[name], err = rpc.LoadKeys(mem, dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	return mem, out
}

func bundles(t *testing.T, names ...string) map[string]*rpc.Keys {
	t.Helper()
	_, keys := issue(t, names...)
	return keys
}

// withKeys runs a test with keys and without: then all keys are nil.
func withKeys(t *testing.T, names []string, run func(t *testing.T, keys map[string]*rpc.Keys)) {
	t.Helper()
	keys := bundles(t, names...)
	t.Run("with keys", func(t *testing.T) { run(t, keys) })
	t.Run("without keys", func(t *testing.T) { run(t, nil) })
}

// run runs a server until the test ends.
func run(t testing.TB, l *rpc.Listener, s *rpc.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		l.Close()
	})
}

// inMemory runs a test in virtual time, on a network without delays.
func inMemory(t *testing.T, run func(t *testing.T, network *simnet.Network, here *simnet.Machine)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // last: the connections end
		n := simnet.New(1)
		n.Follow(func(int, int) simnet.Path { return simnet.Path{} })
		run(t, n, n.Machine(1, netip.MustParseAddr("127.0.0.1")))
	})
}

// unknown is the name of an agent that has not been admitted.
const unknown = "unknown"

func caller(name string) rpc.Caller {
	return rpc.Caller{Name: name, Instance: rpc.ID{9, byte(len(name))}, Boot: 3, Crawl: theCrawl}
}

func client(t testing.TB, keys *rpc.Keys, self rpc.Caller, dial rpc.Dialer) *rpc.Client {
	t.Helper()
	c := rpc.NewClient(rpc.ClientConfig{Keys: keys, Self: func() rpc.Caller { return self }, Dial: dial, Seed: 1})
	t.Cleanup(func() { c.Close() })
	return c
}

// peer returns what the agent called name calls the agent at l with, both without keys.
func peer(t testing.TB, name string, l *rpc.Listener) *rpc.Peer {
	t.Helper()
	return client(t, nil, caller(name), nil).Peer("b", l.Addr())
}

// A handler is any handler. A nil answer is a zero one.
type handler func(call string, from rpc.Caller, ask any) (answer any, err error)

// A raw call is a request that no Client makes.
type raw struct {
	call, who      string // who: the caller
	kind, encoding string // headers; kind "": protobuf
	body           []byte
}

// who is the header of a caller.
func who(c rpc.Caller) string { return fmt.Sprintf("%s %s %d %s", c.Name, c.Instance, c.Boot, c.Crawl) }

// request returns the request to the server at addr.
func (r raw) request(ctx context.Context, addr string) (*http.Request, error) {
	service := "orbweaver.exchange.v1.Exchange"
	if toCoordinator(r.call) {
		service = "orbweaver.coordination.v1.Coordination"
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/"+service+"/"+r.call, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.kind == "" {
		r.kind = "application/proto"
	}
	req.Header.Set("Content-Type", r.kind)
	req.Header.Set("Orbweaver-Caller", r.who)
	if r.encoding != "" {
		req.Header.Set("Content-Encoding", r.encoding)
	}
	return req, nil
}

// plain returns a transport of unencrypted HTTP/2.
func plain(t testing.TB) *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// post makes a raw call without keys, and returns the answer.
func post(t testing.TB, tr *http.Transport, l *rpc.Listener, r raw) (status int, body []byte, err error) {
	t.Helper()
	req, err := r.request(t.Context(), l.Addr())
	if err != nil {
		return 0, nil, err
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, 4<<20))
	return res.StatusCode, body, err
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b := must.Get(proto.Marshal(m))(t)
	return b
}
