package fetch

import (
	"fmt"
	"strings"
	"testing"
)

// A body is whole if it is all that the server has, whatever its header says wrong.
func TestDecodeWhole(t *testing.T) {
	const rules = "User-agent: *\nDisallow: /d\n"
	gz := string(coded(t, []byte(rules), "gzip"))
	length := func(s string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(s), s) }
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	const ok, chunked = "200 OK", "Transfer-Encoding: chunked\r\n"
	const gzipped = "Content-Encoding: gzip\r\n"
	for _, c := range []struct{ name, status, rest, why string }{
		{"length", ok, length(rules), ""},
		{"chunks", ok, chunked + "\r\n" + chunk(rules) + "0\r\n\r\n", ""},
		{"chunks, no end of the trailer", ok, chunked + "\r\n" + chunk(rules) + "0\r\n", ""},
		{"until the connection ends", ok, "\r\n" + rules, ""},
		{"the same length twice", ok, "Content-Length: 27\r\n" + length(rules), ""},
		{"cut at the limit", ok, length(rules + strings.Repeat("#", 200)), ""},
		{"chunks, cut at the limit", ok, chunked + "\r\n" + chunk(rules+strings.Repeat("#", 200)), ""},
		{"coded, cut at the limit", ok, gzipped + length(string(coded(t, []byte(rules+strings.Repeat("#", 200)),
			"gzip"))), ""},
		{"coded", ok, gzipped + length(gz), ""},
		{"coded, until the connection ends", ok, gzipped + "\r\n" + gz, ""},
		{"said to be coded", ok, gzipped + length(rules), ""},
		{"a coding that is none", ok, "Content-Encoding: utf-8\r\n" + length(rules), ""},
		{"empty", ok, length(""), ""},

		{"too short", ok, "Content-Length: 500\r\n\r\n" + rules, "ended before the end"},
		{"nothing of it", ok, "Content-Length: 500\r\n\r\n", "ended before the end"},
		{"no last chunk", ok, chunked + "\r\n" + chunk(rules), "ended before the end"},
		{"cut within a chunk", ok, chunked + "\r\n1b\r\nUser", "ended before the end"},
		{"no chunks", ok, chunked + "\r\n" + rules, "chunks are broken"},
		{"two lengths", ok, "Content-Length: 13\r\n" + length(rules), "Content-Length"},
		{"a length that is no number", ok, "Content-Length: many\r\n\r\n" + rules, "Content-Length"},
		{"a part, unasked", "206 Partial Content", length(rules[:13]), "206"},
		{"the coding is cut", ok, gzipped + length(gz[:len(gz)-10]), "decoded"},
		{"the coding is cut, until the connection ends", ok, gzipped + "\r\n" + gz[:len(gz)-4], "decoded"},
		{"the checksum is wrong", ok, gzipped + length(gz[:len(gz)-8]+"12345678"), "decoded"},
		{"another coding", ok, "Content-Encoding: br\r\n" + length(gz), "decoded"},
		{"an unknown coding", ok, "Content-Encoding: compress\r\n" + length("\x1f\x9d\x90U\xe6"), "decoded"},
		{"not the coding that it says", ok, gzipped + length("\x1f\x9d\x90\x00U\xe6"), "decoded"},
		{"chunks in HTTP/1.0", "", chunked + "\r\n" + chunk(rules) + "0\r\n\r\n", "HTTP/1.0"},
	} {
		head := "HTTP/1.1 " + c.status
		if c.status == "" {
			head = "HTTP/1.0 200 OK"
		}
		f, _ := piped(t, Config{}, answer([]byte(head+"\r\n"+c.rest), false))
		r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/robots.txt"), MaxBody: 150})
		if r.Failure != nil {
			t.Errorf("%s: %v", c.name, r.Failure)
			continue
		}
		body, why, err := r.DecodeWhole(100)
		if err != nil || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: got %q, %v; want %q", c.name, why, err, c.why)
		}
		if c.why == "" && c.name != "empty" && !strings.HasPrefix(string(body), rules) {
			t.Errorf("%s: got the body %q", c.name, body)
		}
	}
}
