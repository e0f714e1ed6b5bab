package record

import (
	"errors"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// TestAnswer: a response is sent as recorded. If the program that wrote the record changed it, it is repaired so that a
// client gets the payload.
func TestAnswer(t *testing.T) {
	gz := zipped("compressed")
	for _, tt := range []struct {
		name, recorded, want string // an empty want means the same as recorded
		truncated            bool
		fault                testweb.Fault
		whole                bool // with the fault: the end of the connection ends the body
	}{
		{name: "length", recorded: "HTTP/1.1 200 Fine\r\ncontent-length:5\r\nX-a:  b \r\n\r\nhello"},
		{name: "bare line feeds", recorded: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"},
		{name: "no body", recorded: "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"},
		{name: "HTTP/1.0", recorded: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
		{name: "gzip",
			recorded: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + itoa(len(gz)) + "\r\n\r\n" +
				gz},
		{name: "a coding that the server did not apply",
			recorded: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"},
		{name: "chunks",
			recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"},
		{name: "trailer",
			recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n000\r\nX: y\r\n\r\n"},
		{name: "no chunks any more", recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
			want: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{name: "empty and no chunks any more", recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			want: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{name: "text that begins like a chunk",
			recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello",
			want:     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n3\r\nhello\r\n0\r\n\r\n"},
		{name: "no chunks and no coding any more",
			recorded: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\nContent-Length: " +
				"9\r\n\r\nhello",
			want: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{name: "chunks without the last empty line",
			recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
			want:     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{name: "more behind the chunks",
			recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\r\n",
			want:     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{name: "chunks cut off", recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhe",
			truncated: true, fault: testweb.CloseAfter},
		{name: "a broken chunk",
			recorded: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\nrest",
			fault:    testweb.CloseAfter},
		{name: "short and truncated",
			recorded: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", truncated: true, fault: testweb.CloseAfter},
		{name: "short", recorded: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: y\r\n\r\nhello",
			want: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"},
		{name: "long and decoded",
			recorded: "HTTP/1.1 200 OK\r\nX: y\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\nZ: z\r\n\r\nhello",
			want:     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\nZ: z\r\n\r\nhello"},
		{name: "brotli decoded",
			recorded: "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nhello \xc3",
			want:     "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhello \xc3"},
		{name: "two lengths", recorded: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
			want: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
		{name: "no number", recorded: "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
			want: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
		{name: "until the end",
			recorded: "HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello", fault: testweb.CloseAfter, whole: true},
		{name: "HTTP/1.0 until the end",
			recorded: "HTTP/1.0 200 OK\r\n\r\nhello", fault: testweb.CloseAfter, whole: true},
		{name: "HTTP/2",
			recorded: "HTTP/2 200\r\nserver: x\r\n\r\nhello",
			want:     "HTTP/1.1 200\r\nContent-Length: 5\r\nserver: x\r\n\r\nhello"},
		{name: "HTTP/2.0 and length",
			recorded: "HTTP/2.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
			want:     "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"},
		{name: "304 with a length", recorded: "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"},
		{name: "204 with a body",
			recorded: "HTTP/1.1 204 No Content\r\n\r\nhello", want: "HTTP/1.1 204 No Content\r\n\r\n"},
		{name: "no empty line",
			recorded: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n",
			want:     "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
		{name: "half a line",
			recorded: "HTTP/1.1 404 Not Found\r\nContent-Length: 0",
			want:     "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
	} {
		lines := ""
		if tt.truncated {
			lines = "WARC-Truncated: disconnect\r\n"
		}
		record := rec("response", "http://a.example/x", date, lines, tt.recorded)
		if tt.want == "" {
			tt.want = tt.recorded
		}
		for kind, file := range map[string]string{"plain": record, "gzip": zipped(record)} {
			a := open(t, Config{}, file)
			got, r := ask(t, a, "http://a.example/x")
			if got != tt.want {
				t.Errorf("%s, %s:\n got %q\nwant %q", tt.name, kind, got, tt.want)
			}
			if r.Fault != tt.fault || tt.fault != testweb.NoFault && (r.Cut == wholeThenClose) != tt.whole ||
				tt.fault != testweb.NoFault && r.Cut < len(got) {
				t.Errorf("%s, %s: got fault %d after %d of %d bytes, want %d, whole %t",
					tt.name, kind, r.Fault, r.Cut, len(got), tt.fault, tt.whole)
			}
			if want := strings.Index(got, "\n\r\n") + 3; want > 2 && r.HeadLen != want {
				t.Errorf("%s, %s: got a header of %d bytes, want %d", tt.name, kind, r.HeadLen, want)
			}
		}
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestAnswerQueries(t *testing.T) {
	long := strings.Repeat("x", 1000)
	a := open(t, Config{MaxResponse: 500},
		response("http://a.example/", ok("home"))+
			response("http://a.example/busy", "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")+
			response("http://a.example/long", ok(long))+
			response("http://a.example/closing", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"))
	q := func(q testweb.Query) (string, testweb.Reply) { b, r := a.Answer(nil, q); return string(b), r }

	const head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
	if got, r := q(testweb.Query{Target: "/", Head: true}); got != head || r.Page < 0 || r.HeadLen != len(got) {
		t.Errorf("HEAD: got %q, %+v", got, r)
	}
	const closed = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nhome"
	if got, _ := q(testweb.Query{Target: "/", Close: true}); got != closed {
		t.Errorf("with close: got %q", got)
	}
	if got, _ := q(testweb.Query{Target: "/closing", Close: true}); strings.Count(got, "Connection: close") != 1 {
		t.Errorf("recorded with close, requested with close: got %q", got)
	}
	if got, r := q(testweb.Query{Target: "/nothing"}); r.Status != 404 || r.Page != -1 ||
		!strings.HasPrefix(got, "HTTP/1.1 404 ") || len(got)-r.HeadLen != 27 ||
		!strings.Contains(got, "Content-Length: 27\r\n") {
		t.Errorf("not recorded: got %q, %+v", got, r)
	}
	got, r := q(testweb.Query{Target: "/nothing", Head: true, Close: true})
	if len(got) != r.HeadLen || !strings.Contains(got, closing) {
		t.Errorf("HEAD of a URL that was not recorded: got %q, %+v", got, r)
	}
	if got, r := q(testweb.Query{Target: "/", Secure: true}); r.Status != 404 {
		t.Errorf("recorded over HTTP, requested over HTTPS: got %q", got)
	}
	if _, r := q(testweb.Query{Target: "/busy"}); r.Status != 503 || r.RetryAfter.Seconds() != 7 || r.Page != -1 {
		t.Errorf("503: got %+v", r)
	}
	got, r = q(testweb.Query{Target: "/long"})
	if len(got) != 500 || r.Fault != testweb.CloseAfter || r.Cut != 500 || !strings.HasPrefix(ok(long), got) {
		t.Errorf("longer than MaxResponse: got %d bytes, %+v", len(got), r)
	}
	if o := a.Host(0); o.Pages != 2 || a.Hosts() != 1 || r.Page != -1 {
		t.Errorf("got %+v, want 2 pages: those that are complete", o)
	}
}

// TestAnswerUnread: if a file cannot be read any more, the answer is a 500 and is counted.
func TestAnswerUnread(t *testing.T) {
	names := write(t, response("http://a.example/", ok("home")))
	a := must.Get(Open(names, Config{}))(t)
	if err := errors.Join(a.files[0].Close(), a.Close()); err == nil {
		t.Fatal("to close a file twice gives no error")
	}
	b, r := a.Answer(nil, testweb.Query{Target: "/"})
	if r.Status != 500 || r.Page != -1 || a.Unread() != 1 || !strings.HasPrefix(string(b), "HTTP/1.1 500 ") {
		t.Errorf("got %q, %+v, %d unread", b, r, a.Unread())
	}
}

func BenchmarkAnswer(b *testing.B) {
	body := strings.Repeat("0123456789abcdef", 22300/16)
	record := response("http://a.example/", ok(body))
	for name, file := range map[string]string{"plain": record, "gzip": zipped(record)} {
		b.Run(name, func(b *testing.B) {
			a := open(b, Config{}, file)
			dst := make([]byte, 0, 64<<10)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				out, _ := a.Answer(dst[:0], testweb.Query{Target: "/"})
				n += len(out)
			}
			b.SetBytes(int64(n / b.N))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}
