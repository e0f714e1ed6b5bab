package rpc

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestVisitors: an agent without keys closes and counts connections that bring no call. It does not
// count callers, and clients that connect and close.
func TestVisitors(t *testing.T) {
	l, s := serve(t, nil, Handlers{Pulse: func(context.Context, Caller, uint64) (Pulse, error) { return Pulse{}, nil }})
	malformed := func() uint64 { return s.Counts().Refused[Malformed.String()] }
	var header [9]byte // of a DATA frame of 2^24 - 1 octets
	binary.BigEndian.PutUint32(header[:], 0xffffff<<8)
	for what, sent := range map[string]string{
		"HTTP/1":           "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"garbage":          strings.Repeat("\x00\xff\x17garbage", 100),
		"a bad preface":    "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
		"a frame too long": http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + string(header[:]),
		"not even a frame": http2.ClientPreface + strings.Repeat("x", 100),
	} {
		before := malformed()
		conn, err := net.Dial("tcp", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, sent)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the connection stays open", what)
		}
		conn.Close()
		for end := time.Now().Add(20 * time.Second); malformed() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s is not counted", what)
				break
			}
		}
	}
	before := malformed()
	c := client(t, nil, caller("a2"), nil)
	if _, err := c.Peer("a1", l.Addr()).Pulse(context.Background(), 1); err != nil {
		t.Error(err)
	}
	c.Close()
	awaitOpen(t, l, 0)
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	awaitOpen(t, l, 1)
	conn.Close()
	awaitOpen(t, l, 0) // the connection is counted before it is closed
	if n := malformed() - before; n != 0 {
		t.Errorf("%d of those that call, or go, were counted", n)
	}
}

// awaitOpen waits until n connections are proven, and no others are open.
func awaitOpen(t *testing.T, l *Listener, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		unproven, proven := l.pool.Open()
		if unproven == 0 && proven == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d unproven and %d proven connections are open, want 0 and %d", unproven, proven, n)
		}
	}
}
