package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// serveAPI starts a server that is the API of the crawl in the directory that it returns.
func serveAPI(t *testing.T, h http.Handler, token string) (dir string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	dir = t.TempDir()
	writeAPI(t, dir, node.APIAccess{Addr: server.Listener.Addr().String(), Token: token})
	return dir
}

func writeAPI(t *testing.T, dir string, access node.APIAccess) {
	t.Helper()
	b := must.Get(json.Marshal(access))(t)
	must.Do(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, crawldir.APIFile), b, 0o600))
}

// running makes the crawl in dir one that runs.
func running(t *testing.T, dir string) {
	t.Helper()
	lock := must.Get(disk.Lock(disk.OS, filepath.Join(dir, "state")))(t)
	t.Cleanup(func() { lock.Close() })
}

// ctl runs a command of ctl. In its output, DIR is the directory.
func ctl(dir string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(append([]string{"ctl", "--dir", dir}, args...), &out, &errs)
	return code, strings.ReplaceAll(out.String(), dir, "DIR"), strings.ReplaceAll(errs.String(), dir, "DIR")
}

// A process that waits for the store has no API yet: ctl says what it waits for, and until when.
func TestCtlOfAWait(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "state", "store.json"),
		[]byte(`{"store":"file:///s/","run":"r","until":"2026-11-30T10:20:30Z"}`), 0o600))
	running(t, dir)
	want := fmt.Sprintf("orbweaver: process %d waits until 2026-11-30T10:20:30Z before it crawls in DIR: file:///s/ "+
		"does not say that the process before has stopped, and by then it has; ask again then\n", os.Getpid())
	if code, _, stderr := ctl(dir, "status"); code != 4 || stderr != want {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// The errors of a server that is no crawl, of one of another version, and of one with another token.
func TestCtlRefused(t *testing.T) {
	for name, c := range map[string]struct {
		h      http.Handler
		token  string
		stderr string
	}{
		"token":   {cannedFor(nil), "y", "the crawl answers: no valid token: send the one in state/api.json"},
		"version": {http.NotFoundHandler(), "x", "the crawl answers: it does not know this command; use the orbweaver"},
		"page": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }), "x",
			`invalid content-type: "text/plain; charset=utf-8"`},
		"empty": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), "x",
			"the crawl answers: 503 Service Unavailable"},
		"elsewhere": {http.RedirectHandler("http://192.0.2.1/", http.StatusTemporaryRedirect), "x",
			"the crawl answers: 307 Temporary Redirect"},
	} {
		dir := serveAPI(t, c.h, c.token)
		running(t, dir)
		code, stdout, stderr := ctl(dir, "pause")
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "orbweaver: ") ||
			!strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
		}
	}
}

// Agents' texts cannot control the terminal, imitate lines, or fill it.
func TestCtlForeignText(t *testing.T) {
	text := strings.ToValidUTF8(evil, "") + "\norbweaver: all is well\t"
	long := text + strings.Repeat("ä", 1<<17)
	order := &pb.Order{Id: long, Agent: long, By: long, Why: long, Verb: long, About: long, Value: long}
	answers := []*pb.Answer{{Agent: long, Error: long}, {Agent: long, Error: long}}
	api := cannedFor(map[string]string{
		"*":      formatted(&pb.GiveResponse{Order: order, Answers: answers}),
		"Orders": formatted(&pb.OrdersResponse{Orders: []*pb.Order{order}}),
		"Status": formatted(&pb.StatusResponse{Agents: []*pb.AgentStatus{
			{Agent: long, State: long, WaitsFor: long, Address: text}}}),
	})
	dir := serveAPI(t, api, "x")
	check := func(most int, args ...string) {
		t.Helper()
		_, stdout, stderr := ctl(dir, args...)
		for _, s := range []string{stdout, stderr} {
			if err := harmless(s); err != nil {
				t.Errorf("%q: %v", args, err)
			}
			if strings.Contains(s, "\norbweaver: all is well") {
				t.Errorf("%q: foreign text stands as a line of its own:\n%.1000s", args, s)
			}
		}
		if n := utf8.RuneCountInString(stdout + stderr); n > most {
			t.Errorf("%q prints %d characters", args, n)
		}
		if !strings.Contains(stdout+stderr, `\u001b[31mred`) {
			t.Errorf("%q prints %.1000s", args, stdout+stderr)
		}
	}
	for _, args := range []string{"status", "explain a.example", "pause", "resume", "stop", "orders --past",
		"take-back x"} {
		check(20<<10, strings.Fields(args)...)
	}
	check(1<<20, "status", "--json")
	check(2<<20, "orders", "--json")
	answers = []*pb.Answer{{Text: strings.ToValidUTF8(evil, "") + strings.Repeat("ä", 2<<20)}}
	api.answers["Give"] = []string{formatted(&pb.GiveResponse{Answers: answers})}
	check(textMost+1000, "block", "a.example")
	api.answers["Give"] = []string{"!unavailable " + text + strings.Repeat("ä", 1<<17)}
	check(5<<10, "block", "a.example")
}

// With TLS, ctl accepts exactly the certificate that the crawl directory names.
func TestCtlTLS(t *testing.T) {
	api := cannedFor(map[string]string{"Leave": `answers:{text:"leaves"}`})
	server := httptest.NewUnstartedServer(api)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // ctl breaks a handshake off
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	access := node.APIAccess{Addr: server.Listener.Addr().String(), Token: "x", Cert: server.Certificate().Raw}
	writeAPI(t, dir, access)
	if code, stdout, stderr := ctl(dir, "leave"); code != 0 || stdout != "leaves\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr := ctl(dir, "health"); code != 0 || stdout != "ok\n" {
		t.Errorf("health: exit code %d, %q, %q", code, stdout, stderr)
	}
	running(t, dir)
	access.Cert = bytes.Clone(access.Cert)
	access.Cert[len(access.Cert)-1] ^= 1
	writeAPI(t, dir, access)
	api.asked = nil
	code, _, stderr := ctl(dir, "leave")
	if code != 1 || !strings.Contains(stderr, "it has another certificate than state/api.json says") ||
		api.asked != nil {
		t.Errorf("another certificate: exit code %d, %q, asked %q", code, stderr, api.asked)
	}
	for addr, want := range map[string]string{"0.0.0.0:7480": "127.0.0.1:7480", "[::]:7480": "127.0.0.1:7480",
		"192.0.2.1:7480": "192.0.2.1:7480", "[::1]:1": "[::1]:1"} {
		if got := here(addr); got != want {
			t.Errorf("here(%s) = %s, want %s", addr, got, want)
		}
	}
}

// redraw fits what it draws.
func TestRedraw(t *testing.T) {
	for _, c := range []struct {
		text        string
		cols, lines int
		want        string
	}{
		{"a\nbb\n", 80, 24, "\x1b[Ha\x1b[K\nbb\x1b[K\n\x1b[J"},
		{"abcdef\n\x1b[2J\n", 5, 24, "\x1b[Habc…\x1b[K\n\\u0…\x1b[K\n\x1b[J"},
		{"1\n2\n3\n4\n", 80, 4, "\x1b[H1\x1b[K\n2\x1b[K\n…\x1b[K\n\x1b[J"},
		{"1\n2\n", 0, 0, "\x1b[H…\x1b[K\n\x1b[J"},
	} {
		if got := redraw(c.text, c.cols, c.lines); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// watch shows the status every 2 s until it is interrupted, or until the crawl has ended.
func TestWatch(t *testing.T) {
	failure := errors.New("no answer")
	for _, c := range []struct {
		name      string
		fail      int // the look that fails
		over      bool
		interrupt time.Duration
		shows     int
		ended     bool
		err       error
		took      time.Duration
	}{
		{name: "interrupted", interrupt: 5 * time.Second, shows: 3, took: 5 * time.Second},
		{name: "ended", fail: 4, over: true, shows: 3, ended: true, took: 6 * time.Second},
		{name: "failed", fail: 4, shows: 3, err: failure, took: 6 * time.Second},
		{name: "was never there", fail: 1, over: true, err: failure},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupt > 0 {
				time.AfterFunc(c.interrupt, cancel)
			}
			looks, shows, begin := 0, 0, time.Now()
			ended, err := watch(ctx, watchEvery, func(context.Context) (string, error) {
				if looks++; looks == c.fail {
					return "", failure
				}
				return "x", nil
			}, func(string) error { shows++; return nil }, func() bool { return c.over })
			if took := time.Since(begin); ended != c.ended || err != c.err || shows != c.shows || took != c.took {
				t.Errorf("%s: ended %t, %v, shown %d times, after %s", c.name, ended, err, shows, took)
			}
		})
	}
}

// quickly makes --watch look again at once.
func quickly(t *testing.T) {
	t.Helper()
	was := watchEvery
	watchEvery = time.Millisecond
	t.Cleanup(func() { watchEvery = was })
}

// serveOnce is serveAPI for a crawl that ends after one request.
func serveOnce(t *testing.T, h http.Handler) (dir string) {
	t.Helper()
	var asked atomic.Int32
	dir = serveAPI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			os.Remove(filepath.Join(dir, crawldir.APIFile)) // as a crawl that ends
			http.Error(w, "closed", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	}), "x")
	return dir
}

// Without a terminal, ctl status --watch prints a table each time, and ends with the crawl.
func TestCtlWatch(t *testing.T) {
	quickly(t)
	dir := serveOnce(t, cannedFor(map[string]string{"Status": `agents:{state:"stopping" totals:{}}`}))
	table := "STATE     PAGES  PAGES/S  RECEIVED  QUEUED  KNOWN  OPEN  ERRORS\n" +
		"stopping      0      0.0       0 B       0      0     0       0\n"
	code, stdout, stderr := ctl(dir, "status", "--watch")
	if code != 0 || stdout != table || stderr != "orbweaver: the crawl in DIR has ended\n" {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	var out bytes.Buffer
	show := screenOf(&out, false)
	if show("a\n") != nil || show("b\n") != nil || out.String() != "a\n\nb\n" {
		t.Errorf("got %q", out.String())
	}
}

// rude is a listener that closes its first connections, as an agent under a flood of
// connections does: some with a reset.
type rude struct {
	net.Listener
	left atomic.Int32
}

func (l *rude) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.left.Add(-1) < 0 {
			return conn, err
		}
		if l.left.Load()%2 == 0 {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
}

func TestCtlInsists(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l := &rude{Listener: ln}
	l.left.Store(5)
	api := cannedFor(map[string]string{"Leave": `answers:{text:"leaves"}`})
	server := &http.Server{Handler: api}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })

	dir := t.TempDir()
	writeAPI(t, dir, node.APIAccess{Addr: ln.Addr().String(), Token: "x"})
	code, stdout, stderr := ctl(dir, "leave", "--agent", "a2")
	if code != 0 || stdout != "leaves\n" || !slices.Equal(api.asked, []string{`Leave agent:"a2"`}) {
		t.Errorf("exit code %d, %q, %q, asked %q", code, stdout, stderr, api.asked)
	}
	if l.left.Load() != -1 {
		t.Errorf("%d connections are left", l.left.Load())
	}
}
