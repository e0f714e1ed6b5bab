package fetch

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

const okReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n := piped(t, Config{}, each(okReply))
		get := func(url string, addr netip.Addr) *Response {
			t.Helper()
			r := mustFetch(t, f, Request{URL: mustURL(t, url), Addr: addr})
			if outcome(r) != "complete" || string(payloadBytes(t, r)) != "ok" {
				t.Fatalf("%s: got %s %v, want complete", url, outcome(r), r.Failure)
			}
			return r
		}
		other := netip.MustParseAddr("93.184.216.35")
		for i, c := range []struct {
			url    string
			addr   netip.Addr
			wait   time.Duration
			reused bool
			idle   int
		}{
			{"http://a.example/1", netip.Addr{}, 0, false, 1},
			{"http://a.example/2", netip.Addr{}, 0, true, 1},
			{"http://a.example/3", somewhere, 4 * time.Second, true, 1},
			{"http://a.example/4", other, 0, false, 1}, // its address has changed
			{"http://a.example:8080/", netip.Addr{}, 0, false, 1},
			{"http://a.example/5", netip.Addr{}, 0, false, 1}, // the connection of the other origin replaced it
			{"http://b.example/", netip.Addr{}, 0, false, 2},
			{"http://a.example/6", netip.Addr{}, 4 * time.Second, true, 2},
			{"http://a.example/7", netip.Addr{}, 6 * time.Second, false, 1},
		} {
			time.Sleep(c.wait)
			synctest.Wait()
			if r := get(c.url, c.addr); r.Reused != c.reused {
				t.Errorf("%d %s: got reused %v, want %v", i, c.url, r.Reused, c.reused)
			}
			f.idle.mu.Lock()
			listed := 0
			for e := f.idle.root.next; e != &f.idle.root; e = e.next {
				listed++
			}
			f.idle.mu.Unlock()
			if got := f.idle.len(); got != c.idle || listed != got {
				t.Errorf("%d %s: %d idle connections, %d in the list, want %d", i, c.url, got, listed, c.idle)
			}
		}
		time.Sleep(10 * time.Second) // no connection outlives IdleKeep; otherwise a goroutine remains in the bubble
		n.open.Wait()
		f.idle.mu.Lock()
		defer f.idle.mu.Unlock()
		if f.idle.timer != nil {
			t.Error("a timer runs without an idle connection")
		}
	})
}

func TestIdleLimit(t *testing.T) {
	f, _ := piped(t, Config{MaxIdle: 3, IdleKeep: time.Hour}, each(okReply))
	for i := range 10 {
		mustFetch(t, f, Request{URL: mustURL(t, "http://h"+strconv.Itoa(i)+".example/")})
	}
	if got := f.idle.len(); got != 3 {
		t.Errorf("got %d idle connections, want 3", got)
	}
	if r := mustFetch(t, f, Request{URL: mustURL(t, "http://h9.example/")}); !r.Reused {
		t.Error("the most recent connection was not kept")
	}
	if r := mustFetch(t, f, Request{URL: mustURL(t, "http://h0.example/")}); r.Reused {
		t.Error("the longest idle connection was kept")
	}
	f, _ = piped(t, Config{IdleKeep: -1}, each(okReply))
	mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
	if got := f.idle.len(); got != 0 {
		t.Errorf("got %d idle connections with a negative IdleKeep, want 0", got)
	}
}

// If a kept connection ends before its first byte, the response is stale and the next request opens
// a new connection. If it gives a byte first, or is slow, the response is not stale.
func TestDeadReuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		second func(net.Conn) // what the first connection does with its second request
		want   string
		stale  bool
	}{
		{"closed", func(net.Conn) {}, "broken", true},
		{"closed after a byte", func(c net.Conn) { io.WriteString(c, "H") }, "broken", false},
		{"closed after an interim", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n") }, "broken",
			false},
		{"silent", func(c net.Conn) { io.Copy(io.Discard, c) }, "timeout-first-byte", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var conns atomic.Int32
			f, _ := piped(t, Config{}, func(conn net.Conn) {
				if conns.Add(1) > 1 {
					each(okReply)(conn)
					return
				}
				br := bufio.NewReader(conn)
				readRequest(br)
				io.WriteString(conn, okReply)
				readRequest(br)
				c.second(conn)
			})
			mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
			r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
			check(t, r)
			if outcome(r) != c.want || r.Stale != c.stale || !r.Reused || conns.Load() != 1 {
				t.Errorf("%s: got %s, stale %v, over %d connections; want %s, %v over 1",
					c.name, outcome(r), r.Stale, conns.Load(), c.want, c.stale)
			}
			r = mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
			check(t, r)
			if outcome(r) != "complete" || r.Stale || r.Reused || conns.Load() != 2 {
				t.Errorf("%s, next request: got %s, stale %v, over %d connections; want complete over 2",
					c.name, outcome(r), r.Stale, conns.Load())
			}
		})
	}
	// A new connection that ends does not make a stale response.
	f, _ := piped(t, Config{}, func(conn net.Conn) { readRequest(bufio.NewReader(conn)) })
	if r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")}); outcome(r) != "broken" || r.Stale ||
		r.Reused {
		t.Errorf("new connection that ends: got %s, stale %v, reused %v", outcome(r), r.Stale, r.Reused)
	}
}

// Bytes that a server sends without a request (a 408 before it closes) are not the answer to the
// next request.
func TestUnaskedReply(t *testing.T) {
	said := make(chan bool, 1)
	var first sync.Once
	addr := loopback(t, func(c net.Conn) {
		unasked := false
		first.Do(func() { unasked = true })
		br := bufio.NewReader(c)
		for {
			if _, err := readRequest(br); err != nil {
				return
			}
			io.WriteString(c, okReply)
			if unasked {
				io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
				said <- true
			}
		}
	})
	f := mustNew(t, Config{AllowPrivate: true})
	u := mustURL(t, "http://"+addr+"/")
	mustFetch(t, f, Request{URL: u})
	<-said
	r := mustFetch(t, f, Request{URL: u})
	if r.Status != 200 || r.Reused {
		t.Errorf("got status %d, reused %v; want 200 over a new connection", r.Status, r.Reused)
	}
	if r = mustFetch(t, f, Request{URL: u}); r.Status != 200 || !r.Reused {
		t.Errorf("got status %d, reused %v; want 200 over the same connection", r.Status, r.Reused)
	}
}

func TestCloseInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n := piped(t, Config{}, func(c net.Conn) {
			readRequest(bufio.NewReader(c))
			time.Sleep(time.Second)
			io.WriteString(c, okReply)
			io.Copy(io.Discard, c)
		})
		time.AfterFunc(time.Second/2, func() { f.Close() })
		r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
		if outcome(r) != "complete" {
			t.Errorf("fetch during Close: got %s, want complete", outcome(r))
		}
		n.open.Wait() // the connection was not kept
		f.Close()
	})
}

func TestConcurrent(t *testing.T) {
	addr := loopback(t, each(okReply))
	f := mustNew(t, Config{AllowPrivate: true, MaxIdle: 4, ConnectTo: []string{"::" + addr}})
	var all sync.WaitGroup
	for i := range 16 {
		u := mustURL(t, "http://h"+strconv.Itoa(i%8)+".example/")
		all.Go(func() {
			for range 50 {
				r, err := f.Fetch(context.Background(), Request{URL: u})
				if err != nil || outcome(r) != "complete" {
					t.Errorf("%s: got %v %v, want complete", u, err, r)
					return
				}
				r.Release()
				r.Release()
			}
		})
	}
	all.Wait()
}

// LetAllGo closes the connections that are idle now. The fetcher continues.
func TestLetAllGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := piped(t, Config{}, each(okReply))
		for _, round := range []string{"first", "second"} {
			for _, url := range []string{"http://a.example/", "http://b.example/"} {
				r := mustFetch(t, f, Request{URL: mustURL(t, url)})
				if outcome(r) != "complete" || r.Reused {
					t.Errorf("%s %s: got %s, reused %v, want complete over a new connection",
						round, url, outcome(r), r.Reused)
				}
				r.Release()
			}
			if n := f.idle.len(); n != 2 {
				t.Errorf("%s: got %d idle connections, want 2", round, n)
			}
			f.LetAllGo()
			if n := f.idle.len(); n != 0 {
				t.Errorf("%s: got %d idle connections after LetAllGo, want 0", round, n)
			}
		}
	})
}

// lingering is a connection whose Close takes some time.
type lingering struct {
	net.Conn
	closing chan struct{} // closed when Close has begun
	closed  atomic.Bool
}

func (c *lingering) Close() error {
	close(c.closing)
	time.Sleep(50 * time.Millisecond)
	c.closed.Store(true)
	return nil
}

// While a host's idle connection is being closed, take must not report that the host has none.
// Otherwise a fetch could dial the host too early.
func TestIdleIsClosedBeforeItIsGone(t *testing.T) {
	for name, end := range map[string]func(p *idle){
		"expire":  func(*idle) {}, // the connection expires
		"relieve": (*idle).relieve,
		"drop":    (*idle).drop,
		"room": func(p *idle) {
			p.put(&conn{raw: &lingering{closing: make(chan struct{})}, host: "b.example"}, time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			keep := time.Hour
			if name == "expire" {
				keep = time.Millisecond
			}
			var p idle
			p.init(keep, 1, clock.System)
			c := &lingering{closing: make(chan struct{})}
			p.put(&conn{raw: c, host: "a.example"}, time.Now())
			done := make(chan struct{})
			go func() {
				defer close(done)
				end(&p)
			}()
			<-c.closing
			if got := p.take("a.example"); got != nil || !c.closed.Load() {
				t.Errorf("take: got %v while closed is %v, want nil after the close", got, c.closed.Load())
			}
			<-done
			p.close()
		})
	}
}
