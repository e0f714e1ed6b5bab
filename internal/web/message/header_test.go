package message

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStatus(t *testing.T) {
	for _, c := range []struct {
		line   string
		proto  string
		status int // 0: refused
	}{
		{"HTTP/1.1 200 OK", "HTTP/1.1", 200},
		{"HTTP/1.0 404 Not Found\r", "HTTP/1.0", 404},
		{"HTTP/1.1 200", "HTTP/1.1", 200},
		{"HTTP/1.1 200 ", "HTTP/1.1", 200},
		{"HTTP/1.1  301\tMoved", "HTTP/1.1", 301},
		{"HTTP/1 200 OK", "HTTP/1", 200},
		{"HTTP/2 200", "HTTP/2", 200},
		{"HTTP/1.1 999 Denied", "HTTP/1.1", 999},
		{"HTTP/1.1 099 Low", "", 0},
		{"HTTP/1.1 -12 OK", "", 0},
		{"HTTP/1.1 2000 OK", "", 0},
		{"HTTP/1.1 20", "", 0},
		{"HTTP/1.1200 OK", "", 0},
		{"HTTP/x.1 200 OK", "", 0},
		{"HTTP/ 200 OK", "", 0},
		{"http/1.1 200 OK", "", 0},
		{"ICY 200 OK", "", 0},
		{"", "", 0},
	} {
		proto, _, _, status, ok := ParseStatus(c.line)
		if proto != c.proto || status != c.status || ok != (c.status != 0) {
			t.Errorf("ParseStatus(%q) = %q, %d, %v; want %q, %d", c.line, proto, status, ok, c.proto, c.status)
		}
	}
}

func TestParseFields(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Header
	}{
		{"\r\n", Header{}},
		{"A: b\r\nC:d\r\n\r\n", Header{{"A", "b"}, {"C", "d"}}},
		{"A: b\nC: d\n\n", Header{{"A", "b"}, {"C", "d"}}},
		{"A : b\r\n\r\n", Header{{"A", "b"}}},
		{"A:\r\n\r\n", Header{{"A", ""}}},
		{"A: b:c \t\r\n\r\n", Header{{"A", "b:c"}}},
		{"A: b\r\n c\r\n\td \r\nE: f\r\n\r\n", Header{{"A", "b c d"}, {"E", "f"}}},
		{"A:\r\n b\r\n\r\n", Header{{"A", "b"}}},
		{"A: b\r\n   \r\nC: d\r\n\r\n", Header{{"A", "b"}, {"C", "d"}}},
		{"no colon\r\nA: b\r\n\r\n", Header{{"", "no colon"}, {"A", "b"}}},
		{" folded nothing: x\r\nA: b\r\n\r\n", Header{{"folded nothing", "x"}, {"A", "b"}}},
		{": no name\r\n\r\n", Header{{"", "no name"}}},
		{"A: b\r\n\r\nC: d\r\n", Header{{"A", "b"}}},
		{"A: \xff\x00b\r\n\r\n", Header{{"A", "\xff\x00b"}}},
	} {
		got, ok := ParseFields(c.in)
		if diff := cmp.Diff(c.want, got); diff != "" || !ok {
			t.Errorf("ParseFields(%q) (-want +got):\n%s", c.in, diff)
		}
	}
	if h, ok := ParseFields(strings.Repeat("a: b\r\n", MaxFields+1) + "\r\n"); ok || len(h) != MaxFields {
		t.Errorf("ParseFields of %d fields: got %d, %v", MaxFields+1, len(h), ok)
	}
	if _, ok := ParseFields(strings.Repeat("a: b\r\n", MaxFields) + "\r\n"); !ok {
		t.Errorf("ParseFields refused %d fields", MaxFields)
	}
}

func TestHeader(t *testing.T) {
	h := Header{{"Set-Cookie", "a"}, {"Link", "x"}, {"set-cookie", "b"}, {"Connection", "foo, CLOSE"}}
	if got := h.Get("SET-COOKIE"); got != "a" {
		t.Errorf("Get = %q, want a", got)
	}
	if got := h.Get("Absent"); got != "" {
		t.Errorf("Get of an absent field = %q, want none", got)
	}
	if diff := cmp.Diff([]string{"a", "b"}, h.Values("Set-Cookie")); diff != "" {
		t.Error(diff)
	}
	if !h.HasToken("connection", "close") || h.HasToken("connection", "keep-alive") {
		t.Error("HasToken gives a wrong result for Connection")
	}
	if n := testing.AllocsPerRun(100, func() { h.Get("connection") }); n != 0 {
		t.Errorf("Get allocates %v times, want 0", n)
	}
}

func TestReadHead(t *testing.T) {
	for _, c := range []struct {
		head, proto string
		status      int
		mime        string
	}{
		{"HTTP/1.1 404 No\r\nContent-Type: text/html\r\n\r\n", "HTTP/1.1", 404, "text/html"},
		{"HTTP/1.1  200\nCONTENT-TYPE:a/b\n\n", "HTTP/1.1", 200, "a/b"},
		{"HTTP/1.1 99999\r\n\r\n", "", 0, ""},
		{"HTTP/1.1 abc\r\nno colon\r\n: x\r\nContent-Type : c/d\r\n", "", 0, "c/d"},
		{"Content-Type: e/f\r\n\r\n", "", 0, "e/f"},
		{"", "", 0, ""},
	} {
		h := ReadHead([]byte(c.head))
		if got := h.Header.Get("content-type"); h.Status != c.status || h.Proto != c.proto || got != c.mime {
			t.Errorf("%q: got %+v", c.head, h)
		}
	}
}

func TestTransfer(t *testing.T) {
	for in, want := range map[string][2]bool{
		"HTTP/1.1 200 OK\nTransfer-Encoding: chunked":                              {true, false},
		"HTTP/1.1 200 OK\nTransfer-Encoding: gzip\nTransfer-Encoding: CHUNKED":     {true, false},
		"HTTP/1.1 200 OK\nTransfer-Encoding: chunked, gzip":                        {false, true},
		"HTTP/1.1 200 OK\nTransfer-Encoding: identity":                             {},
		"HTTP/1.0 200 OK\nTransfer-Encoding: chunked":                              {},
		"HTTP/1.1 304 Not Modified\nTransfer-Encoding: chunked":                    {},
		"HTTP/1.1 200 OK\nContent-Encoding: chunked\nX-Transfer-Encoding: chunked": {},
	} {
		h := ReadHead([]byte(in + "\n\n"))
		if chunked, other := h.Transfer(); [2]bool{chunked, other} != want {
			t.Errorf("%q: got %v, %v", in, chunked, other)
		}
	}
}
