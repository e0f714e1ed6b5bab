package fetch

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// The validators of a response are sent back unchanged. A 304 to them is a complete response
// without a body.
func TestCondition(t *testing.T) {
	const tag, date = `W/"a,b"`, "Sun, 06 Nov 1994 08:49:37 GMT"
	asked := make(chan string, 2)
	f, _ := piped(t, Config{}, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			req, err := readRequest(br)
			if err != nil {
				return
			}
			asked <- req
			if strings.Contains(req, "If-None-Match: "+tag+"\r\n") &&
				strings.Contains(req, "If-Modified-Since: "+date+"\r\n") {
				io.WriteString(c, "HTTP/1.1 304 Not Modified\r\nETag: \"new\"\r\n\r\n")
			} else {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nETag: "+tag+"\r\nLast-Modified: "+date+
					"\r\nContent-Length: 3\r\n\r\nabc")
			}
		}
	})
	first := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
	if req := <-asked; strings.Contains(req, "If-") {
		t.Errorf("the first request has a condition:\n%s", req)
	}
	cond := ConditionOf(first)
	if want := (Condition{tag, date}); cond != want || cond.IsZero() {
		t.Fatalf("got condition %+v, want %+v", cond, want)
	}
	second := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/"), If: cond})
	if req := <-asked; string(second.Request) != req {
		t.Errorf("kept the request %q, but sent %q", second.Request, req)
	}
	if second.Status != 304 || second.Failure != nil || second.Truncated != "" || !second.Reused {
		t.Errorf("got status %d, failure %v, truncated %q, reused %v; want a complete 304, reused",
			second.Status, second.Failure, second.Truncated, second.Reused)
	}
	if got, want := cond.Renew(ConditionOf(second)), (Condition{`"new"`, date}); got != want {
		t.Errorf("Renew: got %+v, want %+v", got, want)
	}
}

func TestConditionOf(t *testing.T) {
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	for _, c := range []struct {
		name      string
		status    int
		truncated string
		etag, lm  string
		want      Condition
	}{
		{"both", 200, "", `"x"`, date, Condition{`"x"`, date}},
		{"none", 200, "", "", "", Condition{}},
		{"unquoted", 200, "", "x", "", Condition{ETag: "x"}},
		{"matches anything", 200, "", "*", "", Condition{}},
		{"control character", 200, "", "\"a\x01\"", date, Condition{LastModified: date}},
		{"long", 200, "", strings.Repeat("x", 300), "", Condition{}},
		{"no date", 200, "", "", "yesterday", Condition{}},
		{"truncated", 200, TruncatedTime, `"x"`, date, Condition{}},
		{"redirect", 302, "", `"x"`, date, Condition{}},
		{"partial", 206, "", `"x"`, date, Condition{}},
		{"not modified", 304, "", `"x"`, "", Condition{ETag: `"x"`}},
	} {
		r := &Response{Status: c.status, Truncated: c.truncated}
		if c.etag != "" {
			r.Header = append(r.Header, Field{Name: "etag", Value: c.etag})
		}
		if c.lm != "" {
			r.Header = append(r.Header, Field{Name: "last-modified", Value: c.lm})
		}
		if got := ConditionOf(r); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestLastModified(t *testing.T) {
	want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for s, ok := range map[string]bool{
		"Sun, 06 Nov 1994 08:49:37 GMT": true, "Sunday, 06-Nov-94 08:49:37 GMT": true, "Sun Nov  6 08:49:37 1994": true,
		"Sun, 06 Nov 1994 09:49:37 +0100": true, " Sun, 06 Nov 1994 08:49:37 GMT ": true, "": false, "0": false,
		"-1": false,
	} {
		got := LastModified(Header{{Name: "Last-Modified", Value: s}})
		if got.IsZero() == ok || ok && !got.Equal(want) {
			t.Errorf("%q: got %v", s, got)
		}
	}
}
