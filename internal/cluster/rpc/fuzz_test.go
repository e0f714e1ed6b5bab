package rpc_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A foreigner is a server of HTTP/2 that answers each call with the same body, and remembers the last request's.
type foreigner struct {
	status        int
	asked, answer []byte
	addr          string
}

func foreign(t testing.TB) *foreigner {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := &foreigner{status: http.StatusOK, addr: l.Addr().String()}
	s := &http.Server{Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := io.Reader(r.Body)
			if r.Header.Get("Content-Encoding") == "zstd" { // a Reader reads ahead from the start
				if d, err := zstd.NewReader(r.Body); err == nil {
					body = d
					defer d.Close()
				}
			}
			f.asked, _ = io.ReadAll(body)
			w.Header().Set("Content-Type", "application/proto")
			w.WriteHeader(f.status)
			w.Write(f.answer)
		})}
	s.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	go func() { defer close(ended); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return f
}

// addSamples adds each call with what an agent sends of it: the bytes of its request, or of its answer.
func addSamples(f *testing.F, of func(sample) proto.Message) {
	for i, s := range samples {
		if !toCoordinator(s.call) {
			f.Add(byte(i), encoded(f, of(s)))
		}
	}
}

// drawn returns the sample of a call between agents.
func drawn(kind byte) sample { return samples[int(kind)%len(samples)] }

// FuzzRequests: any body is refused, or its handler gets a message, which arrives unchanged if it is sent again.
func FuzzRequests(f *testing.F) {
	addSamples(f, func(s sample) proto.Message { return s.ask })
	var got any
	al, _ := agent(f, rpc.System, "127.0.0.1:0", nil, func(_ string, _ rpc.Caller, ask any) (any, error) {
		got = ask
		return nil, errReached
	})
	tr := plain(f)
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		s := drawn(kind)
		if toCoordinator(s.call) {
			return
		}
		got = nil
		status, text, err := post(t, tr, al, raw{call: s.call, who: who(caller("a1")), body: body})
		must.Do(t, err)
		if status != http.StatusInternalServerError {
			if status == http.StatusOK || got != nil {
				t.Fatalf("%s: status %d, %s", s.call, status, text)
			}
			return
		}
		first := got
		_, err = s.send(t.Context(), peer(t, "a1", al), first.(proto.Message))
		if diff := cmp.Diff(first, got, protocmp.Transform()); err == nil || diff != "" {
			t.Fatalf("%s: %v, it arrives as (-first +again):\n%s", s.call, err, diff)
		}
	})
}

var errReached = errors.New("the handler is reached")

// FuzzAnswers: any body of an answer is refused, or it is a message, which arrives unchanged if an agent answers it.
func FuzzAnswers(f *testing.F) {
	addSamples(f, func(s sample) proto.Message { return s.answer })
	var answer any
	al, _ := agent(f, rpc.System, "127.0.0.1:0", nil, func(string, rpc.Caller, any) (any, error) { return answer, nil })
	server := foreign(f)
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		s := drawn(kind)
		if toCoordinator(s.call) {
			return
		}
		server.answer = body
		c := client(t, nil, caller("a1"), nil) // a new one, because calls to an agent that fails wait
		got, err := s.send(t.Context(), c.Peer("a2", server.addr), s.ask)
		if err != nil {
			return
		}
		answer = got
		again, err := s.calls(t.Context(), c, al)
		if diff := cmp.Diff(got, again, protocmp.Transform()); err != nil || diff != "" {
			t.Fatalf("%s: %v, it arrives as (-first +again):\n%s", s.call, err, diff)
		}
	})
}

// FuzzCaller: a text is refused, or its caller arrives unchanged if it calls itself.
func FuzzCaller(f *testing.F) {
	f.Add(who(caller("a1")))
	f.Add("")
	f.Add("a1 " + theCrawl.String() + " 18446744073709551616 " + theCrawl.String())
	f.Add("a1  00 0 00")
	var got rpc.Caller
	l, _ := coordinator(f, rpc.System, "127.0.0.1:0", nil, func(_ string, from rpc.Caller, _ any) (any, error) {
		got = from
		return nil, nil
	})
	tr := plain(f)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return // no header has it
		}
		got = rpc.Caller{}
		status, _, err := post(t, tr, l, raw{call: "Status", who: text})
		must.Do(t, err)
		if status == http.StatusUnauthorized {
			return
		}
		first := got
		if status != http.StatusOK || rpc.CheckName(first.Name) != nil {
			t.Fatalf("%q: status %d, caller %+v", text, status, first)
		}
		if err := ask(t.Context(), client(t, nil, first, nil).Coordinator(l.Addr()), rpc.CallStatus); err != nil ||
			got != first {
			t.Fatalf("%q is %+v, which is %+v, %v", text, first, got, err)
		}
	})
}
