package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// reply returns a response that shows which request it answers.
func reply(body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// pathOf returns the path of a request's header.
func pathOf(req string) string {
	_, rest, _ := strings.Cut(req, " ")
	path, _, _ := strings.Cut(rest, " ")
	return path
}

// echoPaths answers each request with its own path.
func echoPaths(c net.Conn) {
	br := bufio.NewReader(c)
	for {
		req, err := readRequest(br)
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, reply(pathOf(req))); err != nil {
			return
		}
	}
}

// awaitBytes returns when host's idle connection has something to read.
func awaitBytes(t *testing.T, f *Fetcher, host string) {
	t.Helper()
	f.idle.mu.Lock()
	c := f.idle.byHost[host]
	f.idle.mu.Unlock()
	if c == nil {
		t.Fatalf("no connection of %s is idle", host)
	}
	awaitSocket(t, c.raw)
}

func awaitSocket(t *testing.T, c net.Conn) {
	s := newSocket(c)
	for range 30_000 {
		if s.probe() != silent {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("no bytes came within 30 s")
}

// corked is a connection that holds writes back while hold is set.
type corked struct {
	net.Conn
	hold bool
	b    []byte
}

func (c *corked) Write(p []byte) (int, error) {
	if c.hold {
		c.b = append(c.b, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

// Bytes after a response are never the next response, whether they are in the session's buffer, in
// the socket, or half of them still on the way.
func TestUnaskedOverTLS(t *testing.T) {
	ca := newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, tickets := range []bool{false, true} {
			for _, c := range []struct {
				name string
				// first serves the first request of the first connection. The test closes late when
				// the client has the answer and waits for more.
				first        func(w *corked, tc *tls.Conn, late chan bool)
				note1, note2 string
				late         bool
			}{
				{"same record", func(_ *corked, tc *tls.Conn, _ chan bool) {
					io.WriteString(tc, reply("/1")+evil)
				}, "excess-bytes", "", false},
				{"next record, same packet", func(w *corked, tc *tls.Conn, _ chan bool) {
					w.hold = true
					io.WriteString(tc, reply("/1"))
					io.WriteString(tc, evil)
					w.Conn.Write(w.b)
				}, "excess-bytes", "", false},
				{"late", func(_ *corked, tc *tls.Conn, late chan bool) {
					io.WriteString(tc, reply("/1"))
					<-late
					io.WriteString(tc, evil)
				}, "", "unasked-bytes", true},
				{"half a record, late", func(w *corked, tc *tls.Conn, late chan bool) {
					io.WriteString(tc, reply("/1"))
					w.hold = true
					io.WriteString(tc, evil)
					<-late
					w.Conn.Write(w.b[:len(w.b)/2])
				}, "", "unasked-bytes", true},
				{"close, late", func(_ *corked, tc *tls.Conn, late chan bool) {
					io.WriteString(tc, reply("/1"))
					<-late
					tc.Close()
				}, "", "", true},
			} {
				name := fmt.Sprintf("%x/tickets=%v/%s", version, tickets, c.name)
				cfg := ca.config("a.example")
				cfg.MaxVersion, cfg.SessionTicketsDisabled = version, !tickets
				late := make(chan bool)
				var conns atomic.Int32
				addr := loopback(t, func(conn net.Conn) {
					w := &corked{Conn: conn}
					tc := tls.Server(w, cfg)
					if conns.Add(1) > 1 {
						echoPaths(tc)
						return
					}
					if _, err := readRequest(bufio.NewReader(tc)); err != nil {
						return
					}
					c.first(w, tc, late)
					io.Copy(io.Discard, conn)
				})
				f := mustNew(t, Config{CA: ca.pool, ConnectTo: []string{"::" + addr}, IdleKeep: time.Hour})
				r := mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/1")})
				if outcome(r) != "complete" || string(payloadBytes(t, r)) != "/1" || r.Note != c.note1 {
					t.Errorf("%s: first request: got %s %v, note %q; want complete, note %q",
						name, outcome(r), r.Failure, r.Note, c.note1)
					close(late)
					continue
				}
				if c.late {
					close(late)
					awaitBytes(t, f, "a.example")
				}
				r = mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/2")})
				if outcome(r) != "complete" || string(payloadBytes(t, r)) != "/2" || r.Reused || r.Note != c.note2 {
					t.Errorf(
						"%s: second request: got %s %q, reused %v, note %q; want /2 over a new connection, note %q",
						name, outcome(r), payloadBytes(t, r), r.Reused, r.Note, c.note2)
				}
				r = mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/3")})
				if string(payloadBytes(t, r)) != "/3" || !r.Reused || conns.Load() != 2 {
					t.Errorf("%s: third request: got %q, reused %v, %d connections; want /3 over the second connection",
						name, payloadBytes(t, r), r.Reused, conns.Load())
				}
			}
		}
	}
}

// sealer makes TLS 1.3 records (RFC 8446, 5.2), because a crypto/tls server sends no ticket after
// its first answer.
type sealer struct {
	aead cipher.AEAD
	iv   []byte
	seq  uint64
}

// newSealer reads the server's secret from its key log.
func newSealer(t *testing.T, keyLog string) *sealer {
	_, line, _ := strings.Cut(keyLog, "SERVER_TRAFFIC_SECRET_0 ")
	line, _, _ = strings.Cut(line, "\n")
	_, text, _ := strings.Cut(line, " ")
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != sha256.Size {
		t.Errorf("secret %q: %v", text, err)
		return nil
	}
	expand := func(label string, n int) []byte {
		info := binary.BigEndian.AppendUint16(nil, uint16(n))
		info = append(append(info, byte(len("tls13 "+label))), "tls13 "+label...)
		key, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
		if err != nil {
			t.Error(err)
		}
		return key
	}
	block, err := aes.NewCipher(expand("key", 16))
	if err != nil {
		t.Error(err)
		return nil
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Error(err)
		return nil
	}
	return &sealer{aead: aead, iv: expand("iv", 12)}
}

const (
	handshakeRecord = 22
	dataRecord      = 23
)

// seal returns the next record.
func (s *sealer) seal(kind byte, data string) string {
	nonce := append([]byte(nil), s.iv...)
	for i := range 8 {
		nonce[4+i] ^= byte(s.seq >> (56 - 8*i))
	}
	s.seq++
	head := binary.BigEndian.AppendUint16([]byte{dataRecord, 3, 3}, uint16(len(data)+1+s.aead.Overhead()))
	return string(s.aead.Seal(head, nonce, append([]byte(data), kind), head))
}

// ticket returns a NewSessionTicket message (RFC 8446, 4.6.1).
func ticket(size int) string {
	b := []byte{0, 0, 14, 16, 1, 2, 3, 4, 1, 0} // lifetime, age, nonce
	b = binary.BigEndian.AppendUint16(b, uint16(size))
	b = append(b, bytes.Repeat([]byte{'t'}, size)...)
	b = append(b, 0, 0) // extensions
	return string([]byte{4, 0, byte(len(b) >> 8), byte(len(b))}) + string(b)
}

// A server may send messages of the session while the connection is idle. They do not end the
// connection. Content in their place does.
func TestSessionMessagesWhileIdle(t *testing.T) {
	ca := newAuthority(t)
	for _, c := range []struct {
		name   string
		late   func(s *sealer) string
		reused bool
		note   string
	}{
		{"ticket", func(s *sealer) string { return s.seal(handshakeRecord, ticket(100)) }, true, ""},
		{"two tickets in one record", func(s *sealer) string {
			return s.seal(handshakeRecord, ticket(100)+ticket(8000))
		}, true, ""},
		{"ticket in two records", func(s *sealer) string {
			whole := ticket(100)
			return s.seal(handshakeRecord, whole[:50]) + s.seal(handshakeRecord, whole[50:])
		}, true, ""},
		{"empty record", func(s *sealer) string { return s.seal(dataRecord, "") }, true, ""},
		{"half a ticket's record", func(s *sealer) string {
			return s.seal(handshakeRecord, ticket(100))[:60]
		}, false, "unasked-bytes"},
		{"a header's first bytes", func(*sealer) string { return "\x17\x03\x03" }, false, "unasked-bytes"},
		{"ticket and content", func(s *sealer) string {
			return s.seal(handshakeRecord, ticket(100)) + s.seal(dataRecord, evil)
		}, false, "unasked-bytes"},
		{"many tickets", func(s *sealer) (all string) {
			for range 64 {
				all += s.seal(handshakeRecord, ticket(10))
			}
			return all
		}, false, ""},
		{"a record that is not sealed", func(s *sealer) string {
			return "\x17\x03\x03\x00\x20" + strings.Repeat("x", 32)
		}, false, ""},
	} {
		late := make(chan bool)
		var conns atomic.Int32
		addr := loopback(t, func(conn net.Conn) {
			conns.Add(1)
			var keyLog bytes.Buffer
			cfg := ca.config("a.example")
			cfg.MinVersion, cfg.SessionTicketsDisabled, cfg.KeyLogWriter = tls.VersionTLS13, true, &keyLog
			tc := tls.Server(conn, cfg)
			if err := tc.Handshake(); err != nil {
				return
			}
			if suite := tc.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
				t.Errorf("this test seals with AES-128-GCM only, not %s", tls.CipherSuiteName(suite))
				return
			}
			s := newSealer(t, keyLog.String())
			br := bufio.NewReader(tc)
			for {
				req, err := readRequest(br)
				if err != nil {
					return
				}
				io.WriteString(conn, s.seal(dataRecord, reply(pathOf(req))))
				if pathOf(req) == "/1" {
					<-late
					io.WriteString(conn, c.late(s))
				}
			}
		})
		f := mustNew(t, Config{CA: ca.pool, ConnectTo: []string{"::" + addr}, IdleKeep: time.Hour})
		r := mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/1")})
		close(late)
		if outcome(r) != "complete" || string(payloadBytes(t, r)) != "/1" {
			t.Fatalf("%s: first %s %v", c.name, outcome(r), r.Failure)
		}
		awaitBytes(t, f, "a.example")
		for i, path := range []string{"/2", "/3"} {
			r = mustFetch(t, f, Request{URL: mustURL(t, "https://a.example"+path)})
			reused, note := c.reused, c.note
			if i > 0 {
				reused, note = true, ""
			}
			if outcome(r) != "complete" || string(payloadBytes(t, r)) != path || r.Reused != reused || r.Note != note {
				t.Errorf("%s: %s: got %s %q, reused %v, note %q; want reused %v, note %q",
					c.name, path, outcome(r), payloadBytes(t, r), r.Reused, r.Note, reused, note)
			}
		}
		if want := map[bool]int32{true: 1, false: 2}[c.reused]; conns.Load() != want {
			t.Errorf("%s: %d connections, want %d", c.name, conns.Load(), want)
		}
	}
}

// tripwire calls trip before each write, once trip is set.
type tripwire struct {
	*net.TCPConn
	trip *atomic.Pointer[func()]
}

func (c *tripwire) Write(p []byte) (int, error) {
	if trip := c.trip.Swap(nil); trip != nil {
		(*trip)()
	}
	return c.TCPConn.Write(p)
}

// Bytes that come between the probe of a kept connection and the request are not the answer,
// because the server did not have the request. The server in this test has room for only a part of
// it, so it cannot have acknowledged all of it.
func TestUnaskedAsTheRequestLeaves(t *testing.T) {
	ca := newAuthority(t)
	for _, secure := range []bool{false, true} {
		said := make(chan bool)
		var conns atomic.Int32
		addr := loopback(t, func(conn net.Conn) {
			if conns.Add(1) == 1 {
				conn.(*net.TCPConn).SetReadBuffer(1)
			}
			number := conns.Load()
			stream := conn
			if secure {
				stream = tls.Server(conn, ca.config("a.example"))
			}
			if number > 1 {
				echoPaths(stream)
				return
			}
			if _, err := readRequest(bufio.NewReader(stream)); err != nil {
				return
			}
			io.WriteString(stream, reply("/1"))
			<-said
			io.WriteString(stream, evil)
			<-said // wait until the client has the result
		})
		var trip atomic.Pointer[func()]
		var raw *net.TCPConn
		cfg := Config{
			CA: ca.pool, ConnectTo: []string{"::" + addr}, IdleKeep: time.Hour,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				raw = c.(*net.TCPConn)
				return &tripwire{raw, &trip}, nil
			},
		}
		f := mustNew(t, cfg)
		url := map[bool]string{false: "http://a.example", true: "https://a.example"}[secure]
		r := mustFetch(t, f, Request{URL: mustURL(t, url+"/1")})
		if string(payloadBytes(t, r)) != "/1" {
			t.Fatalf("tls %v: first request: got %s %v, want /1", secure, outcome(r), r.Failure)
		}
		speak := func() {
			said <- true
			awaitSocket(t, raw)
		}
		trip.Store(&speak)
		long := [][2]string{{"X-Long", strings.Repeat("x", 200<<10)}}
		r = mustFetch(t, f, Request{URL: mustURL(t, url+"/2"), Header: long})
		check(t, r)
		close(said)
		if outcome(r) != "broken" || !r.Stale || !r.Reused {
			t.Errorf("tls %v: got %s %q, stale %v, reused %v; want broken and stale", secure, outcome(r),
				payloadBytes(t, r), r.Stale, r.Reused)
		}
		r = mustFetch(t, f, Request{URL: mustURL(t, url+"/2")})
		if outcome(r) != "complete" || string(payloadBytes(t, r)) != "/2" || r.Reused || conns.Load() != 2 {
			t.Errorf("tls %v, next request: got %s %q, reused %v, %d connections; want /2 over a new one",
				secure, outcome(r), payloadBytes(t, r), r.Reused, conns.Load())
		}
	}
}
