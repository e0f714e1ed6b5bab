package fetch

import (
	"strings"
	"testing"
	"time"

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
		proto, _, _, status, ok := parseStatus(c.line)
		if proto != c.proto || status != c.status || ok != (c.status != 0) {
			t.Errorf("parseStatus(%q) = %q, %d, %v; want %q, %d", c.line, proto, status, ok, c.proto, c.status)
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
		got, ok := parseFields(c.in)
		if diff := cmp.Diff(c.want, got); diff != "" || !ok {
			t.Errorf("parseFields(%q) (-want +got):\n%s", c.in, diff)
		}
	}
	if h, ok := parseFields(strings.Repeat("a: b\r\n", maxFields+1) + "\r\n"); ok || len(h) != maxFields {
		t.Errorf("parseFields of %d fields: got %d, %v", maxFields+1, len(h), ok)
	}
	if _, ok := parseFields(strings.Repeat("a: b\r\n", maxFields) + "\r\n"); !ok {
		t.Errorf("parseFields refused %d fields", maxFields)
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
	if !h.hasToken("connection", "close") || h.hasToken("connection", "keep-alive") {
		t.Error("hasToken gives a wrong result for Connection")
	}
	if n := testing.AllocsPerRun(100, func() { h.Get("connection") }); n != 0 {
		t.Errorf("Get allocates %v times, want 0", n)
	}
}

func TestHeadEnd(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int
	}{
		{"a\r\n\r\nb", 5}, {"a\n\nb", 3}, {"a\r\n\nb", 4}, {"a\n\r\nb", 4}, {"a\r\nb\r\n", -1}, {"a\r\n\r", -1},
		{"", -1},
	} {
		if got := headEnd([]byte(c.in), 0); got != c.want {
			t.Errorf("headEnd(%q) = %d, want %d", c.in, got, c.want)
		}
		scanned := 0
		for i := range len(c.in) + 1 { // byte by byte
			got := headEnd([]byte(c.in[:i]), scanned)
			if want := headEnd([]byte(c.in[:i]), 0); got != want {
				t.Errorf("headEnd(%q, %d) = %d, want %d", c.in[:i], scanned, got, want)
			}
			if got >= 0 {
				break
			}
			scanned = i
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(1994, 11, 6, 8, 49, 0, 0, time.UTC)
	for _, c := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"120", 2 * time.Minute, true},
		{"0", 0, true},
		{"99999999999999999999", 24 * time.Hour, true},
		{"100000", 24 * time.Hour, true},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 37 * time.Second, true},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 37 * time.Second, true},
		{"Sun Nov  6 08:49:37 1994", 37 * time.Second, true},
		{"Sun, 06 Nov 1994 08:00:00 GMT", 0, true},
		{"Sun, 06 Nov 2094 08:49:37 GMT", 24 * time.Hour, true},
		{"-5", 0, false},
		{"1.5", 0, false},
		{"soon", 0, false},
		{"", 0, false},
	} {
		got, ok := RetryAfter(Header{{"retry-after", c.value}}, now)
		if got != c.want || ok != c.ok {
			t.Errorf("RetryAfter(%q) = %v, %v; want %v, %v", c.value, got, ok, c.want, c.ok)
		}
	}
}

func TestRedirect(t *testing.T) {
	for _, c := range []struct {
		status   int
		location string
		want     bool
	}{
		{300, "/a", true}, {301, "/a", true}, {302, "/a", true}, {303, "/a", true}, {307, "/a", true},
		{308, "/a", true},
		{301, "", false}, {304, "/a", false}, {305, "/a", false}, {200, "/a", false}, {201, "/a", false},
	} {
		got, ok := Redirect(&Response{Status: c.status, Header: Header{{"Location", c.location}}})
		if ok != c.want || ok && got != c.location {
			t.Errorf("Redirect(%d, %q) = %q, %v, want ok only for a redirect with a Location",
				c.status, c.location, got, ok)
		}
	}
}
