package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestFraming checks the payload and the outcome of what a server sends, with and without closing
// the connection.
func TestFraming(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, reply string
		stay        bool
		want        string // outcome
		body, note  string
		kept        bool
	}{
		{"length", ok + "Content-Length: 3\r\n\r\nabc", true, "complete", "abc", "", true},
		{"no body", ok + "Content-Length: 0\r\n\r\n", true, "complete", "", "", true},
		{"same length twice", ok + "Content-Length: 3\r\nContent-Length: 3, 3\r\n\r\nabc", true, "complete", "abc", "",
			true},
		{"two lengths", ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcde", false, "complete", "abcde",
			"bad-content-length", false},
		{"negative length", ok + "Content-Length: -3\r\n\r\nabc", false, "complete", "abc", "bad-content-length",
			false},
		{"huge length", ok + "Content-Length: 99999999999999999999999\r\n\r\nabc", false, "complete", "abc",
			"bad-content-length", false},
		{"plus length", ok + "Content-Length: +3\r\n\r\nabc", false, "complete", "abc", "bad-content-length", false},
		{"empty length", ok + "Content-Length:\r\n\r\nabc", false, "complete", "abc", "bad-content-length", false},
		{"length too long", ok + "Content-Length: 9\r\n\r\nabc", false, "truncated-disconnect", "abc", "early-close",
			false},
		{"length too long, silence", ok + "Content-Length: 9\r\n\r\nabc", true, "truncated-time", "abc", "timeout-idle",
			false},
		{"length too short", ok + "Content-Length: 2\r\n\r\nabc", true, "complete", "ab", "excess-bytes", false},
		{"until close", ok + "\r\nabc", false, "complete", "abc", "", false},
		{"until close, silence", ok + "\r\nabc", true, "truncated-time", "abc", "timeout-idle", false},
		{"close asked", ok + "Connection: close\r\nContent-Length: 3\r\n\r\nabc", true, "complete", "abc", "", false},
		{"1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", true, "complete", "abc", "", false},
		{"1.0 keeps", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc", true, "complete",
			"abc", "", true},
		{"1.0 has no chunks", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", false, "complete",
			"3\r\nabc\r\n", "", false},
		{"0.1 has no chunks", "HTTP/0.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false,
			"complete", "0\r\n\r\n", "", false},
		{"1 has no chunks", "HTTP/1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false,
			"complete", "0\r\n\r\n", "", false},
		{"1.2", "HTTP/1.2 200 OK\r\nContent-Length: 3\r\n\r\nabc", true, "complete", "abc", "", true},
		{"2 in the clear", "HTTP/2 200\r\nContent-Length: 3\r\n\r\nabc", true, "complete", "abc", "", false},
		{"204", "HTTP/1.1 204 None\r\nContent-Length: 3\r\n\r\n", true, "complete", "", "", true},
		{"304", "HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\n", true, "complete", "", "", true},
		{"304 with a body", "HTTP/1.1 304 Same\r\n\r\nabc", true, "complete", "", "excess-bytes", false},
		{"101", "HTTP/1.1 101 Switch\r\nUpgrade: x\r\n\r\n", true, "complete", "", "", false},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", true, "complete", "abc", "", true},
		{"empty lines first", "\r\n\n\r\n" + ok + "Content-Length: 3\r\n\r\nabc", true, "complete", "abc", "", true},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + ok +
			"Content-Length: 3\r\n\r\nabc", true, "complete", "abc", "", true},
		{"interim and close", "HTTP/1.1 100 Continue\r\n\r\n", false, "broken", "", "", false},
		{"endless interims", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20), true, "bad-response", "", "", false},
		{"chunked", ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nT: v\r\n\r\n",
			true, "complete", "abc0123456789", "", true},
		{"chunked, bare LF", ok + "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", true, "complete", "abc", "", true},
		{"chunked, spaces", ok + "Transfer-Encoding: Chunked\r\n\r\n3  \r\nabc\r\n0000 ; x\r\n\r\n", true, "complete",
			"abc", "", true},
		{"chunked and length", ok + "Transfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			true, "complete", "abc", "", false},
		{"chunk too long", ok + "Transfer-Encoding: chunked\r\n\r\n9\r\nabc\r\n", false, "truncated-disconnect",
			"abc\r\n", "early-close", false},
		{"chunk too short", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", true,
			"truncated-disconnect", "ab", "broken-chunk", false},
		{"chunk without size", ok + "Transfer-Encoding: chunked\r\n\r\n\r\nabc", true, "truncated-disconnect", "",
			"broken-chunk", false},
		{"chunk of negative size", ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc", true, "truncated-disconnect", "",
			"broken-chunk", false},
		{"chunk of huge size", ok + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nabc", true,
			"truncated-disconnect", "", "broken-chunk", false},
		{"chunk line without end", ok + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 16<<10),
			true, "truncated-disconnect", "", "broken-chunk", false},
		{"trailer without end", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" +
			strings.Repeat("x: y\r\n", 64<<10/6+1), true, "truncated-disconnect", "", "broken-chunk", false},
		{"no trailer", ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", false, "complete", "abc",
			"no-trailer-end", false},
		{"no trailer, silence", ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", true, "complete", "abc",
			"no-trailer-end", false},
		{"chunks not last", ok + "Transfer-Encoding: chunked, foo\r\n\r\n3\r\nabc", false, "complete", "3\r\nabc", "",
			false},
		{"chunks and more", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1", true, "complete", "",
			"excess-bytes", false},
		{"identity", ok + "Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc", true, "complete", "abc", "",
			false},
		{"HTTP/0.9", "<html>hello", false, "bad-response", "", "", false},
		{"begins like HTTP", "HTT", false, "broken", "", "", false},
		{"HTTPr", "HTTPr\n", true, "bad-response", "", "", false},
		{"silence", "", true, "timeout-first-byte", "", "", false},
		{"closed", "", false, "broken", "", "", false},
		{"half a header", ok + "A: b\r\n", false, "broken", "", "", false},
		{"half a header, silence", ok + "A: b\r\n", true, "timeout-idle", "", "", false},
		{"header flood", ok + strings.Repeat("X-Flood: flood\r\n", 20_000), true, "header-too-large", "", "", false},
		{"many fields", ok + strings.Repeat("a:\n", 6000) + "\n", true, "header-too-large", "", "", false},
		{"100,000 fields", ok + strings.Repeat("a:\n", 100_000) + "\n", true, "header-too-large", "", "", false},
		{"one long line", "HTTP/1.1 200 " + strings.Repeat("x", 1<<20), true, "header-too-large", "", "", false},
		{"endless empty lines", strings.Repeat("\r\n", 1<<18), true, "header-too-large", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, n := piped(t, Config{}, answer([]byte(c.reply), c.stay))
				r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
				check(t, r)
				if got := outcome(r); got != c.want || r.Note != c.note {
					t.Fatalf("got %s %q (%v), want %s %q", got, r.Note, r.Failure, c.want, c.note)
				}
				if r.Failure == nil {
					if got := string(payloadBytes(t, r)); got != c.body {
						t.Errorf("got payload %q, want %q", got, c.body)
					}
					if got := wireBytes(t, r); !bytes.HasPrefix(got, []byte("HTTP/")) || headEnd(got, 0) != r.HeadLen {
						t.Errorf("Wire begins with %.40q, and HeadLen is %d", got, r.HeadLen)
					}
				} else if got := wireBytes(t, r); !strings.Contains(c.reply, string(got)) || len(got) > 300<<10 {
					t.Errorf("Wire holds %d bytes that did not come", len(got))
				}
				if kept := f.idle.len() == 1; kept != c.kept {
					t.Errorf("connection kept: %v, want %v", kept, c.kept)
				}
				if len(n.dials) != 1 || n.dials[0] != "93.184.216.34:80" {
					t.Errorf("dialled %v, want one dial of 93.184.216.34:80", n.dials)
				}
			})
		})
	}
}

func TestRequestBytes(t *testing.T) {
	var got string
	serve := func(c net.Conn) {
		got, _ = readRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
	f, _ := piped(t, Config{
		UserAgent: "Orb/1", From: "op@example.org", AcceptLanguage: "en",
		Header: [][2]string{{"X-A", "1"}, {"accept", "*/*"}},
	}, serve)
	r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example:8080/p?q=1"),
		Header: [][2]string{{"X-B", "2"}, {"From", "other@example.org"}}})
	want := "GET /p?q=1 HTTP/1.1\r\nHost: a.example:8080\r\nUser-Agent: Orb/1\r\nAccept-Language: en\r\n" +
		"Accept-Encoding: gzip, br\r\nX-A: 1\r\naccept: */*\r\nX-B: 2\r\nFrom: other@example.org\r\nConnection: " +
		"keep-alive\r\n\r\n"
	if got != want || string(r.Request) != want {
		t.Errorf("sent %q\nkept %q\nwant %q", got, r.Request, want)
	}
	for _, bad := range [][2]string{{"Host", "x"}, {"A", "b\r\nC: d"}, {"A b", "c"}, {"", "x"},
		{"content-length", "3"}} {
		if _, err := f.Fetch(context.Background(),
			Request{URL: mustURL(t, "http://a.example/"), Header: [][2]string{bad}}); !errors.Is(err, ErrHeader) {
			t.Errorf("Fetch with field %q: got %v, want ErrHeader", bad, err)
		}
		if _, err := New(Config{Header: [][2]string{bad}}); !errors.Is(err, ErrHeader) {
			t.Errorf("New with field %q: got %v, want ErrHeader", bad, err)
		}
	}
	if got := string(appendTarget(nil, "/a b\r\n\x7fc")); got != "/a%20b%0D%0A%7Fc" {
		t.Errorf("appendTarget = %q", got)
	}
}

// slow sends prefix and then one byte a second.
func slow(prefix string) func(net.Conn) {
	return func(c net.Conn) {
		readRequest(bufio.NewReader(c))
		if _, err := io.WriteString(c, prefix); err != nil {
			return
		}
		for {
			time.Sleep(time.Second)
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	}
}

func TestTimes(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n\r\n"
	for _, c := range []struct {
		name    string
		serve   func(net.Conn)
		want    string
		atLeast time.Duration
		atMost  time.Duration
	}{
		{"slow body", slow(head), "truncated-time", 5 * time.Minute, 5 * time.Minute},
		{"slow header", slow("HTTP/1.1 200 OK\r\nX: "), "timeout-total", 5 * time.Minute, 5 * time.Minute},
		{"first byte", answer(nil, true), "timeout-first-byte", 30 * time.Second, 30 * time.Second},
		{"idle body", answer([]byte(head+"abc"), true), "truncated-time", 17 * time.Second, 20 * time.Second},
		{"idle header", answer([]byte("HTTP/1.1 200"), true), "timeout-idle", 17 * time.Second, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := piped(t, Config{MinRate: -1}, c.serve)
				r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
				check(t, r)
				if got := outcome(r); got != c.want || r.Duration < c.atLeast || r.Duration > c.atMost {
					t.Errorf("got %s (%v) after %v; want %s after %v to %v",
						got, r.Failure, r.Duration, c.want, c.atLeast, c.atMost)
				}
			})
		})
	}
}

// An endless body is cut at the limit. The bytes up to it are kept.
func TestBodyLimit(t *testing.T) {
	endless := func(head, piece string) func(net.Conn) {
		return func(c net.Conn) {
			readRequest(bufio.NewReader(c))
			_, err := io.WriteString(c, head)
			for err == nil {
				_, err = io.WriteString(c, piece)
			}
		}
	}
	piece := strings.Repeat("0123456789abcdef", 1000)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
	for _, spilled := range []int64{1 << 20, 8 << 10} {
		for _, c := range []struct {
			name, head, piece string
		}{
			{"close", "HTTP/1.1 200 OK\r\n\r\n", piece},
			{"length", "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n", piece},
			{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk},
		} {
			f, _ := piped(t, Config{SpillBytes: spilled, SpillDir: t.TempDir()}, endless(c.head, c.piece))
			r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/"), MaxBody: 300_000})
			if outcome(r) != "truncated-length" || r.Wire.Size() != int64(r.HeadLen)+300_000 {
				t.Errorf("%s: got %s, %d bytes (head %d), want truncated-length after 300,000 bytes of body",
					c.name, outcome(r), r.Wire.Size(), r.HeadLen)
			}
			if _, mem := r.Wire.Bytes(); mem != (spilled > 300_000) {
				t.Errorf("%s: got in memory: %v", c.name, mem)
			}
			want := c.head + strings.Repeat(c.piece, 300_000/len(c.piece)+1)
			if got := string(wireBytes(t, r)); got != want[:len(got)] {
				t.Errorf("%s: Wire differs from the bytes sent", c.name)
			}
			body := payloadBytes(t, r)
			if !bytes.HasPrefix([]byte(strings.Repeat(piece, 20)), body) || len(body) < 299_000 {
				t.Errorf("%s: got a wrong payload of %d bytes", c.name, len(body))
			}
			dec, cut, err := r.Decode(1 << 20)
			if err != nil || !cut || !bytes.Equal(dec, body) {
				t.Errorf("%s: Decode: got %d bytes, %v, %v", c.name, len(dec), cut, err)
			}
			if dec, cut, err = r.Decode(1000); err != nil || !cut || !bytes.Equal(dec, body[:1000]) {
				t.Errorf("%s: Decode(1000): got %d bytes, %v, %v", c.name, len(dec), cut, err)
			}
		}
	}
	// A body of exactly the limit is complete.
	f, _ := piped(t, Config{}, answer([]byte("HTTP/1.1 200 OK\r\n\r\nabc"), false))
	if r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/"), MaxBody: 3}); outcome(r) != "complete" {
		t.Errorf("body of the limit's length: got %s, want complete", outcome(r))
	}
}

// countedConn signals when n bytes have been read from it.
type countedConn struct {
	*net.TCPConn
	n    int
	done chan struct{}
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if c.n -= n; c.n <= 0 && n > 0 {
		close(c.done)
	}
	return n, err
}

func TestReset(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{"HTTP/1.1 200 OK\r\n\r\nabc", "truncated-disconnect"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "truncated-disconnect"},
		{"HTTP/1.1 200 OK\r\n", "broken"},
		{"", "broken"},
	} {
		heard := make(chan struct{})
		addr := loopback(t, func(conn net.Conn) {
			readRequest(bufio.NewReader(conn))
			io.WriteString(conn, c.reply)
			if c.reply != "" {
				<-heard // wait, because a reset discards what the client has not read
			}
			conn.(*net.TCPConn).SetLinger(0)
		})
		cfg := shortTimes
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{conn.(*net.TCPConn), len(c.reply), heard}, nil
		}
		cfg.AllowPrivate = true
		f := mustNew(t, cfg)
		r := mustFetch(t, f, Request{URL: mustURL(t, "http://"+addr+"/")})
		check(t, r)
		if outcome(r) != c.want || string(wireBytes(t, r)) != c.reply {
			t.Errorf("%q, then a reset: got %s %v, wire %q", c.reply, outcome(r), r.Failure, wireBytes(t, r))
		}
		if r.Failure == nil && r.Note != "reset" {
			t.Errorf("got note %q, want reset", r.Note)
		}
		if r.Addr.String() != addr {
			t.Errorf("got Addr %v, want %s", r.Addr, addr)
		}
	}
}

// A fetch that ends without an answer resets the connection, so that the system does not repeat a request that the
// network could not deliver. After an answer it closes it as usual.
func TestAbandonedRequestIsReset(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		cancel      bool
		want        error
	}{
		{"timeout", "", false, syscall.ECONNRESET},
		{"cancelled", "", true, syscall.ECONNRESET},
		{"answered", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false, nil},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		ends := make(chan error, 1)
		addr := loopback(t, func(conn net.Conn) {
			br := bufio.NewReader(conn)
			readRequest(br)
			if io.WriteString(conn, c.reply); c.cancel {
				cancel()
			}
			_, err := io.Copy(io.Discard, br)
			ends <- err
		})
		cfg := Config{AllowPrivate: true}
		if c.name == "timeout" {
			cfg.FirstByteTimeout = 50 * time.Millisecond
		}
		f := mustNew(t, cfg)
		if r, err := f.Fetch(ctx, Request{URL: mustURL(t, "http://"+addr+"/")}); err == nil {
			r.Release()
		}
		if err := <-ends; !errors.Is(err, c.want) {
			t.Errorf("%s: the server read %v, want %v", c.name, err, c.want)
		}
		cancel()
	}
}

// A request of a megabyte is sent. A server that refuses it early gets its answer through.
func TestLongURL(t *testing.T) {
	long := "/" + strings.Repeat("a", 1<<20)
	addr := loopback(t, func(conn net.Conn) {
		br := bufio.NewReaderSize(conn, 64<<10)
		b, _ := br.Peek(20)
		if strings.Contains(string(b), "/early") {
			io.WriteString(conn, "HTTP/1.1 414 Too Long\r\nContent-Length: 0\r\n\r\n")
			return
		}
		req, _ := readRequest(br)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Got: %d\r\n\r\n", len(req))
	})
	cfg := shortTimes
	cfg.AllowPrivate = true
	f := mustNew(t, cfg)
	u, err := mustURL(t, "http://"+addr+"/").Resolve(long)
	if err != nil {
		t.Skipf("weburl refuses the URL: %v", err)
	}
	r := mustFetch(t, f, Request{URL: u})
	if r.Status != 200 || r.Header.Get("X-Got") != fmt.Sprint(len(r.Request)) || len(r.Request) < 1<<20 {
		t.Errorf("got %s, %d, %v; request of %d bytes", outcome(r), r.Status, r.Header, len(r.Request))
	}
}

func TestCancel(t *testing.T) {
	for _, reply := range []string{"", "HTTP/1.1 200 OK\r\n\r\nabc"} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := piped(t, Config{}, answer([]byte(reply), true))
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			began := time.Now()
			r, err := f.Fetch(ctx, Request{URL: mustURL(t, "http://a.example/")})
			if r != nil || err != context.Canceled || time.Since(began) != time.Second {
				t.Errorf("Fetch = %v, %v after %v; want context.Canceled after 1s", r, err, time.Since(began))
			}
			if _, err := f.Fetch(ctx, Request{URL: mustURL(t, "http://a.example/")}); err != context.Canceled {
				t.Errorf("Fetch with a cancelled context: got %v, want context.Canceled", err)
			}
		})
	}
}
