package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

// unresponsive returns an address that answers no further SYN: a listener with a full queue.
func unresponsive(t *testing.T) netip.AddrPort {
	t.Helper()
	fd := must.Get(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { syscall.Close(fd) })
	must.Do(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.Do(t, syscall.Listen(fd, 0))
	sa := must.Get(syscall.Getsockname(fd))(t)
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*syscall.SockaddrInet4).Port))
	for n, failed := 0, 0; failed < 2 || n == 0; { // the queue takes one; other failures may be a busy machine's
		c, err := net.DialTimeout("tcp4", at.String(), 100*time.Millisecond)
		if err != nil {
			failed++
			continue
		}
		if n++; n > 16 {
			testneed.Missing(t, "a listener whose queue can be full")
		}
		t.Cleanup(func() { c.Close() })
	}
	return at
}

func openFiles(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		testneed.Missing(t, err)
	}
	return len(d)
}

// A connection attempt without an answer ends in time, or at once if the fetch is cancelled. It
// leaves no descriptor open.
func TestDialUnresponsive(t *testing.T) {
	at := unresponsive(t)
	cfg := Config{AllowPrivate: true, ConnectTimeout: 150 * time.Millisecond}
	f := mustNew(t, cfg)
	u := mustURL(t, "http://"+at.String()+"/")
	began := time.Now()
	before := openFiles(t)
	r := mustFetch(t, f, Request{URL: u})
	check(t, r)
	if took := time.Since(began); outcome(r) != "timeout-connect" || took < 150*time.Millisecond ||
		took > 10*time.Second {
		t.Errorf("got %s %v after %v, want timeout-connect after 150ms", outcome(r), r.Failure, took)
	}
	// Two addresses share the time.
	two := cfg
	two.ConnectTimeout = 400 * time.Millisecond
	addr := loopback(t, each(okReply))
	_, port, _ := strings.Cut(at.String(), ":")
	two.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{at.Addr(), netip.MustParseAddr("127.0.0.1")}, nil
	}
	g := mustNew(t, two)
	if r := mustFetch(t, g, Request{URL: mustURL(t, "http://two.example:"+port+"/")}); outcome(r) != "timeout-connect" {
		t.Errorf("two unresponsive addresses: got %s %v, want timeout-connect", outcome(r), r.Failure)
	}
	// Cancelled while connecting.
	f = mustNew(t, Config{AllowPrivate: true, ConnectTimeout: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	began = time.Now()
	if r, err := f.Fetch(ctx, Request{URL: u}); r != nil || !errors.Is(err, context.Canceled) ||
		time.Since(began) > 20*time.Second {
		t.Errorf("cancelled: got %v, %v after %v, want context.Canceled at once", r, err, time.Since(began))
	}
	if after := openFiles(t); after > before+2 { // the listener of addr
		t.Errorf("got %d open descriptors, before the test %d", after, before)
	}
	// Refused, and the text in the log.
	dead := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone := dead.Addr().String()
	dead.Close()
	r = mustFetch(t, f, Request{URL: mustURL(t, "http://"+gone+"/")})
	if want := "connect: dial tcp4 " + gone + ": connect: connection refused"; outcome(r) != "connect" ||
		r.Failure.Error() != want {
		t.Errorf("%s %v, want %s", outcome(r), r.Failure, want)
	}
	if r := mustFetch(t, f, Request{URL: mustURL(t, "http://"+addr+"/")}); outcome(r) != "complete" {
		t.Errorf("a server that listens: got %s %v, want complete", outcome(r), r.Failure)
	}
}

// A cancelled canceller keeps nothing open.
func TestCanceller(t *testing.T) {
	l := new(canceller)
	a, b := net.Pipe()
	defer b.Close()
	if !l.hold(a) {
		t.Fatal("a new canceller is cancelled")
	}
	l.cancel()
	if _, err := a.Write([]byte{1}); err == nil {
		t.Error("the held connection is still open")
	}
	c, d := net.Pipe()
	defer d.Close()
	if l.hold(c) {
		t.Error("hold on a cancelled canceller: got true, want false")
	}
	if _, err := c.Write([]byte{1}); err == nil {
		t.Error("the connection held after the cancel is open")
	}
}

func TestDialIPv6(t *testing.T) {
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		testneed.Missing(t, err)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			answer([]byte(okReply), false)(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	f := mustNew(t, Config{AllowPrivate: true})
	r := mustFetch(t, f, Request{URL: mustURL(t, "http://"+ln.Addr().String()+"/")})
	if outcome(r) != "complete" || r.Addr.String() != ln.Addr().String() {
		t.Errorf("got %s %v at %v, want complete at %v", outcome(r), r.Failure, r.Addr, ln.Addr())
	}
	if r := mustFetch(t, mustNew(t, Config{}),
		Request{URL: mustURL(t, "http://"+ln.Addr().String()+"/")}); outcome(r) != "refused-address" {
		t.Errorf("without AllowPrivate: got %s, want refused-address", outcome(r))
	}
}
