package rpc_test

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// A foreigner is a server of HTTP/2 that answers each call with the same body, and remembers the last request's.
type foreigner struct {
	status        int
	asked, answer []byte
	addr          string
}

func foreign(t testing.TB) *foreigner {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// FuzzRequests: any message is refused, or its handler gets a value within its bounds, which arrives unchanged if it
// is sent again.
func FuzzRequests(f *testing.F) {
	var got any
	handle := func(_ string, _ rpc.Caller, ask any) (any, error) {
		got = ask
		return nil, errReached
	}
	al, _ := serve(f, nil, all(handle))
	tr, server := plain(f), foreign(f)
	for i, e := range exchanges {
		do(f.Context(), client(f, nil, caller("a1"), nil).Peer("a2", server.addr), e.call, e.ask)
		f.Add(byte(i), server.asked)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		e, l := exchanges[int(kind)%len(exchanges)], al
		got = nil
		status, text, err := post(t, tr, l, raw{call: e.call, who: who(caller("a1")), body: body})
		if err != nil {
			t.Fatal(err)
		}
		if status != http.StatusInternalServerError {
			if status == http.StatusOK || got != nil {
				t.Fatalf("%s: status %d, %s", e.call, status, text)
			}
			return
		}
		first := got
		if !bounded(first) {
			t.Fatalf("%s lets %+v through", e.call, first)
		}
		e.ask = first
		if _, err := e.calls(t.Context(), client(t, nil, caller("a1"), nil), l); err == nil ||
			!cmp.Equal(first, got, cmpopts.EquateEmpty()) {
			t.Fatalf("%s: %+v arrives as %+v, %v", e.call, first, got, err)
		}
	})
}

var errReached = errors.New("the handler is reached")

// FuzzAnswers: any answer is refused, or the caller gets a value within its bounds, which arrives unchanged if an
// agent answers it.
func FuzzAnswers(f *testing.F) {
	var answer any
	handle := func(string, rpc.Caller, any) (any, error) { return answer, nil }
	al, _ := serve(f, nil, all(handle))
	tr, server := plain(f), foreign(f)
	for i, e := range exchanges {
		do(f.Context(), client(f, nil, caller("a1"), nil).Peer("a2", server.addr), e.call, e.ask)
		answer = e.answer
		_, body, err := post(f, tr, al, raw{call: e.call, who: who(caller("a1")), body: server.asked})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), body)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		e := exchanges[int(kind)%len(exchanges)]
		server.answer = body
		c := client(t, nil, caller("a1"), nil) // a new one, because calls to an agent that fails wait
		got, err := do(t.Context(), c.Peer("a2", server.addr), e.call, e.ask)
		if err != nil || got == nil {
			return
		}
		if !bounded(got) || number(got) != number(e.answer) {
			t.Fatalf("%s lets %+v through", e.call, got)
		}
		answer = got
		if again, err := e.calls(t.Context(), c, al); err != nil ||
			!cmp.Equal(got, again, cmpopts.EquateEmpty()) {
			t.Fatalf("%s: %+v arrives as %+v, %v", e.call, got, again, err)
		}
	})
}

// number returns the number of answers, in an answer that has one for each question, or 0.
func number(answer any) int {
	if v := reflect.ValueOf(answer); v.Kind() == reflect.Slice && v.Type() != reflect.TypeFor[[]byte]() {
		return v.Len()
	}
	return 0
}

// bounded reports whether a request or an answer that was let through is within its bounds.
func bounded(v any) bool {
	name := func(s string) bool { return rpc.CheckName(s) == nil }
	agent := func(capacity float64, addr string) bool {
		_, _, err := net.SplitHostPort(addr)
		return err == nil && len(addr) <= 255 && capacity > 0 && capacity <= 1e6
	}
	settings := func(s map[string]string) bool {
		return len(s) <= 64 && every(slices.Collect(maps.Keys(s)),
			func(k string) bool { return len(k) <= 256 && len(s[k]) <= 256 })
	}
	switch v := v.(type) {
	case rpc.Hello:
		v.Differ(map[string]string{"partition": "rendezvous"})
		return name(v.Agent.Name) && agent(v.Agent.Capacity, v.Agent.Addr) && settings(v.Settings)
	case rpc.Welcome:
		return v.Elapsed >= 0 && every(append(v.Agents, v.Agent),
			func(a rpc.Agent) bool { return name(a.Name) && agent(a.Capacity, a.Addr) })
	}
	return true
}

// every reports whether all of s are as is says.
func every[E any](s []E, is func(E) bool) bool {
	return !slices.ContainsFunc(s, func(e E) bool { return !is(e) })
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
		if err != nil {
			t.Fatal(err)
		}
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
