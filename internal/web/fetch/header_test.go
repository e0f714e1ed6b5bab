package fetch

import (
	"testing"
	"time"
)

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
		got, ok := RetryAfter(Header{{Name: "retry-after", Value: c.value}}, now)
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
		got, ok := Redirect(&Response{Status: c.status, Header: Header{{Name: "Location", Value: c.location}}})
		if ok != c.want || ok && got != c.location {
			t.Errorf("Redirect(%d, %q) = %q, %v, want ok only for a redirect with a Location",
				c.status, c.location, got, ok)
		}
	}
}
