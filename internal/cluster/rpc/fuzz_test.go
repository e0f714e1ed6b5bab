package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
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
			if d, err := zstd.NewReader(r.Body); err == nil && r.Header.Get("Content-Encoding") == "zstd" {
				body = d
				defer d.Close()
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
	al, _ := serve(f, nil, all[rpc.Handlers](handle))
	cl, _ := serve(f, nil, all[rpc.Coordination](handle))
	tr, server := plain(f), foreign(f)
	for i, e := range exchanges {
		do(f.Context(), callee(client(f, nil, caller("a1"), nil), e.call, server.addr), e.call, e.ask)
		f.Add(byte(i), server.asked)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		e, l := exchanges[int(kind)%len(exchanges)], al
		if toCoordinator(e.call) {
			l = cl
		}
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
		if problem := outOfBounds(first); problem != "" {
			t.Fatalf("%s lets %+v through: %s", e.call, first, problem)
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
	al, _ := serve(f, nil, all[rpc.Handlers](handle))
	cl, _ := serve(f, nil, all[rpc.Coordination](handle))
	tr, server := plain(f), foreign(f)
	of := func(e exchange) *rpc.Listener {
		if toCoordinator(e.call) {
			return cl
		}
		return al
	}
	for i, e := range exchanges {
		do(f.Context(), callee(client(f, nil, caller("a1"), nil), e.call, server.addr), e.call, e.ask)
		answer = e.answer
		_, body, err := post(f, tr, of(e), raw{call: e.call, who: who(caller("a1")), body: server.asked})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), body)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		e := exchanges[int(kind)%len(exchanges)]
		server.answer = body
		c := client(t, nil, caller("a1"), nil) // a new one, because calls to an agent that fails wait
		got, err := do(t.Context(), callee(c, e.call, server.addr), e.call, e.ask)
		if err != nil || got == nil {
			return
		}
		problem := outOfBounds(got)
		if g, ok := got.(rpc.Grant); ok && (g.Held < 5 || g.Held > 15) { // it holds 5 pages and asked for 10
			problem = "more pages than asked for, or fewer than held"
		}
		if n, ok := number(got); ok && problem == "" {
			if asked, _ := number(e.answer); n != asked {
				problem = fmt.Sprintf("%d answers, not %d", n, asked)
			}
		}
		if problem != "" {
			t.Fatalf("%s lets %+v through: %s", e.call, got, problem)
		}
		answer = got
		if again, err := e.calls(t.Context(), c, of(e)); err != nil ||
			!cmp.Equal(got, again, cmpopts.EquateEmpty()) {
			t.Fatalf("%s: %+v arrives as %+v, %v", e.call, got, again, err)
		}
	})
}

// number returns the number of answers, in an answer that has one for each question.
func number(answer any) (n int, ok bool) {
	switch a := answer.(type) {
	case []bool:
		return len(a), true
	case []rpc.Verdict:
		return len(a), true
	case []rpc.ContentAnswer:
		return len(a), true
	case []rpc.RecallAnswer:
		return len(a), true
	case []rpc.HostAnswer:
		return len(a), true
	case rpc.CopyAnswer:
		return len(a.Known), true
	}
	return 0, false
}

// outOfBounds returns what is wrong with a request or an answer that was let through.
func outOfBounds(v any) (problem string) {
	wrong := func(format string, args ...any) {
		if problem == "" {
			problem = fmt.Sprintf(format, args...)
		}
	}
	within := func(what string, n, least, most int) {
		if n < least || n > most {
			wrong("%d %s", n, what)
		}
	}
	name := func(s string) {
		if err := rpc.CheckName(s); err != nil {
			wrong("%v", err)
		}
	}
	agent := func(capacity float64, addr string) {
		if within("octets of an address", len(addr), 1, 255); !(capacity > 0 && capacity <= 1e6) {
			wrong("capacity %v", capacity)
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			wrong("%v", err)
		}
	}
	linked := func(b []byte, want int) {
		n := 0
		for ; len(b) > 0; n++ {
			link, used, err := weburl.DecodeLink(b)
			if err != nil || link.URL.Host() == "" {
				wrong("link %d: %v", n, err)
				return
			}
			b = b[used:]
		}
		if n != want || n == 0 {
			wrong("%d links, said %d", n, want)
		}
	}
	hosts := func(hosts []string) {
		within("hosts", len(hosts), 1, 4096)
		for _, h := range hosts {
			if u, err := weburl.Parse("http://" + h + "/"); err != nil || u.String() != "http://"+h+"/" {
				wrong("host %q", h)
			}
		}
	}
	page := func(p rpc.ContentPage) {
		within("octets of a URL", len(p.URL), 1, rpc.MaxContentURL)
		within("as the year", p.Date.Year(), 1970, 9999)
		if u, err := weburl.Parse(p.URL); err != nil || u.String() != p.URL {
			wrong("page %q: %v", p.URL, err)
		}
	}
	orders := func(orders [][]byte) {
		size := 0
		for _, o := range orders {
			within("octets of an order", len(o), 1, rpc.MaxOrder)
			size += len(o)
		}
		within("orders", len(orders), 0, rpc.MaxOrders)
		within("octets of orders", size, 0, rpc.MaxData)
	}
	known := func(pages map[string]int64) {
		within("agents", len(pages), 0, 4096)
		for a, n := range pages {
			if name(a); n < 0 || n > 1<<60 {
				wrong("%d pages of %s", n, a)
			}
		}
	}
	settings := func(settings map[string]string) {
		within("settings", len(settings), 0, 64)
		for k, v := range settings {
			within("octets of a setting", max(len(k), len(v)), 0, 256)
		}
	}
	share := func(x float64) {
		if !(x >= 0 && x <= 1) {
			wrong("a share of %v", x)
		}
	}
	switch v := v.(type) {
	case rpc.Hello:
		name(v.Agent.Name)
		agent(v.Agent.Capacity, v.Agent.Addr)
		settings(v.Settings)
		v.Differ(map[string]string{"partition": "rendezvous"})
	case rpc.Welcome:
		for _, a := range append(v.Agents, v.Agent) {
			name(a.Name)
			agent(a.Capacity, a.Addr)
		}
		if v.Elapsed < 0 {
			wrong("elapsed %v", v.Elapsed)
		}
	case rpc.Links:
		linked(v.Data, v.Count)
		within("hops", v.Hops, 0, rpc.MaxHops)
	case rpc.Records:
		within("records", v.Count, 1, len(v.Data))
		within("octets of records", len(v.Data), 1, rpc.MaxData)
	case rpc.Claim:
		hosts(v.Hosts)
	case rpc.Discovery:
		hosts(v.Hosts)
	case []rpc.Verdict:
		for _, verdict := range v {
			within("as a verdict", int(verdict), int(rpc.Unknown), int(rpc.Never))
		}
	case []byte:
		within("octets", len(v), 0, rpc.MaxData)
	case rpc.End:
		within("octets of a reason", len(v.Reason), 0, 64)
	case rpc.Budget:
		if known(v.Known); v.Used < 0 || v.Used > v.Held || v.Held > 1<<60 || v.Want < 0 || v.Want > 1<<20 {
			wrong("its numbers")
		}
	case rpc.Grant:
		known(v.Known)
	case rpc.ShareAsk:
		share(v.Held)
		if share(v.Want); v.Left < 0 || v.Left > time.Minute {
			wrong("for %v", v.Left)
		}
	case rpc.ShareGrant:
		share(v.Share)
		if within("agents", v.Agents, 1, 4096); !(v.Requests >= 0 && v.Bits >= 0) {
			wrong("its limits")
		}
	case []rpc.Content:
		within("contents", len(v), 1, rpc.MaxContents)
		for _, c := range v {
			page(c.Page)
		}
	case []rpc.ContentAnswer:
		for _, a := range v {
			if a.First != (rpc.ContentPage{}) {
				if page(a.First); a.Claimed {
					wrong("claimed and archived")
				}
			}
		}
	case []rpc.Fingerprint:
		within("fingerprints", len(v), 1, rpc.MaxKnown)
		for _, f := range v {
			within("bits", int(f>>48), 0, 0)
		}
	case rpc.Recall:
		linked(v.Links.Data, v.Links.Count)
		within("links", v.Links.Count, 1, rpc.MaxRecall)
	case []rpc.RecallAnswer:
		for i, a := range v {
			if a.Verdict == rpc.RecallKnown {
				within("octets of a state", len(a.State), 1, rpc.MaxState)
				l, _, err := weburl.DecodeLink(a.Link)
				if want := []string{"http://a.example/", "http://b.example/"}[i]; err != nil || l.URL.String() != want {
					wrong("link %v: %v", l, err)
				}
			}
		}
	case rpc.Orders:
		orders(v.Orders)
	case rpc.OrdersAnswer:
		orders(v.Orders)
	case rpc.Operation:
		if within("octets", len(v.Request), 0, rpc.MaxData); !methodForm.MatchString(v.Method) {
			wrong("method %q", v.Method)
		}
	case rpc.OperationAnswer:
		within("octets", len(v.Response), 0, rpc.MaxData)
		within("octets of an error", len(v.Error), 0, 16<<10)
		within("octets of a code", len(v.Code), 0, 64)
	case rpc.Copy:
		within("octets", len(v.Data), 0, rpc.MaxPart)
		if within("pages", len(v.Pages), 0, rpc.MaxPages); v.Offset < 0 || v.Offset+int64(len(v.Data)) > v.File.Size {
			wrong("its part of the file")
		}
	case rpc.CopyAnswer:
		within("files", len(v.Files), 0, rpc.MaxFiles)
	case []rpc.HostAnswer:
		for _, a := range v {
			if a.After < 0 || a.After > 24*time.Hour || a.After > 0 && a.State != rpc.HostDead {
				wrong("%v", a)
			}
		}
	case rpc.Follow:
		agent(v.Report.Capacity, v.Report.Addr)
		settings(v.Report.Settings)
		if within("agents", len(v.Report.Heard), 0, 4096); v.From == 0 || v.Wait < 0 || v.Wait > rpc.MaxFollow {
			wrong("its numbers")
		}
		for a, d := range v.Report.Heard {
			if name(a); d < 0 {
				wrong("%s was heard before %v", a, d)
			}
		}
	case rpc.Followed:
		within("octets", len(v.Entries), 0, rpc.MaxData)
		if v.Term > v.Last || len(v.Entries) > 0 && v.Last < aFollow.From {
			wrong("its numbers")
		}
	case string:
		name(v)
	}
	return problem
}

var methodForm = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// FuzzCaller: a text is refused, or its caller arrives unchanged if it calls itself.
func FuzzCaller(f *testing.F) {
	f.Add(who(caller("a1")))
	f.Add("")
	f.Add("a1 " + theCrawl.String() + " 18446744073709551616 " + theCrawl.String())
	f.Add("a1  00 0 00")
	var got rpc.Caller
	l, _ := serve(f, nil, rpc.Coordination{Status: func(_ context.Context, from rpc.Caller) ([]byte, error) {
		got = from
		return nil, nil
	}})
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
		if _, err := client(t, nil, first, nil).Coordinator(l.Addr()).Status(t.Context()); err != nil || got != first {
			t.Fatalf("%q is %+v, which is %+v, %v", text, first, got, err)
		}
	})
}

// TestUnimplemented: an agent learns that the other one is of a version that does not know the call.
func TestUnimplemented(t *testing.T) {
	server := foreign(t)
	server.status = http.StatusNotFound
	p := client(t, nil, caller("a1"), nil).Peer("a2", server.addr)
	_, err := p.Share(t.Context(), rpc.ShareAsk{Seq: 2, Want: 1})
	if !rpc.Unimplemented(err) || rpc.Unimplemented(rpc.ErrAgain) {
		t.Errorf("%v, want an error of a call that is not known", err)
	}
}
