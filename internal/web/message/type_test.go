package message

import (
	"strings"
	"testing"
)

func TestType(t *testing.T) {
	long := "text/" + strings.Repeat("x", 250)
	for _, c := range []struct{ fields, essence, charset string }{
		{"text/html", "text/html", ""},
		{" Text/HTML ; charset=x", "text/html", "x"},
		{"text/html;charset=utf-8", "text/html", "utf-8"},
		{"text/html,text/html", "text/html", ""},
		{"text/plain, text/html", "text/html", ""},
		{"text/plain\ntext/html", "text/html", ""},
		{"text/html\nbad", "text/html", ""},
		{"text/html\n*/*", "text/html", ""},
		{"html", "", ""},
		{`"text/html"`, "", ""},
		{"text/html charset=utf-8", "", ""},
		{"/html", "", ""},
		{"text/", "", ""},
		{"", "", ""},
		{"*/*", "", ""},
		{"unknown/unknown", "", ""},
		// The examples of the Fetch standard.
		{"text/plain;charset=gbk, text/html", "text/html", ""},
		{"text/html;charset=gbk;a=b, text/html;x=y", "text/html", "gbk"},
		{"text/html;charset=gbk;a=b\ntext/html;x=y", "text/html", "gbk"},
		{"text/html;charset=gbk\nx/x\ntext/html;x=y", "text/html", ""},
		{"text/html\ncannot-parse", "text/html", ""},
		{"text/html\n", "text/html", ""},
		// Parameters.
		{`text/html; x="a,b;charset=no"; charset="ut\f-8"`, "text/html", "utf-8"},
		{"text/html;;charset ;charset=a;charset=b", "text/html", "a"},
		{`text/html; charset="open`, "text/html", "open"},
		// As web-platform-tests have it: a quotation mark may be in one field and its end in the next.
		{"text/html;x=\"\ntext/plain", "text/html", ""},
		{"text/html;\"\ntext/plain", "text/html", ""},
		{"text/html;charset=gbk\ntext/html;x=\",text/plain", "text/html", "gbk"},
		{"text/html;charset =gbk", "text/html", ""},
		{"text/html;x=(;charset=gbk", "text/html", "gbk"},
		{"text/html;';charset=gbk", "text/html", "gbk"},
		{"bogus/bogus/;", "", ""},
		{"{/}", "", ""},
		{long, long, ""},
		{long + "x", "", ""},
	} {
		var h Header
		for v := range strings.SplitSeq(c.fields, "\n") {
			h = append(h, Field{"content-type", v})
		}
		if got, _ := h.Type(); got != (Type{c.essence, c.charset}) {
			t.Errorf("%.60q: got %+v, want %q, %q", c.fields, got, c.essence, c.charset)
		}
	}
	h := Header{{"Content-Type", "text/html; charset=utf-8"}}
	if n := testing.AllocsPerRun(100, func() { h.Type() }); n != 0 {
		t.Errorf("Type allocates %v times, want 0", n)
	}
}

func TestTypeOf(t *testing.T) {
	const page, image = "\n<!DOCTYPE html><p>", "\x89PNG\r\n\x1a\n\x00"
	for _, c := range []struct{ fields, body, want string }{
		{"", page, "text/html"},
		{"", "\ufeff <html >", "text/html"},
		{"", "<pre>", "text/plain"},
		{"", "<?xml version='1.0'?>", "text/xml"},
		{"", "%PDF-1.7", "application/pdf"},
		{"", image, "image/png"},
		{"", "\x00\x01", "application/octet-stream"},
		{"", "", ""},
		{"Content-Type: html", page, "text/html"},
		{"Content-Type: \"text/html\"", page, "text/html"},
		{"Content-Type: application/unknown", page, "text/html"},
		{"Content-Type: text/html", image, "text/html"},
		{"Content-Type: application/octet-stream", page, "application/octet-stream"},
		{"Content-Type: text/plain", page, "text/plain"},
		{"Content-Type: text/plain", image, "application/octet-stream"},
		{"Content-Type: text/plain;charset=x", image, "text/plain"},
		{"X-Content-Type-Options: NoSniff", page, "text/plain"},
		{"X-Content-Type-Options: nosniff", image, "image/png"},
		{"X-Content-Type-Options: x, nosniff", page, "text/html"},
	} {
		h := ReadHead([]byte(c.fields + "\r\n")).Header
		if got := h.TypeOf([]byte(c.body)); got.Essence != c.want {
			t.Errorf("%q, %q: got %q, want %q", c.fields, c.body, got.Essence, c.want)
		}
	}
}

func FuzzType(f *testing.F) {
	f.Add(`text/html; x="a,b\"`, `;charset="x`, "<a>")
	f.Fuzz(func(t *testing.T, a, b, body string) {
		h := Header{{"Content-Type", a}, {"Content-Type", b}}
		got, _ := h.Type()
		if len(got.Essence) > maxType || got.Essence != strings.ToLower(got.Essence) {
			t.Fatalf("%q", got.Essence)
		}
		if joined, _ := (Header{{"Content-Type", a + ", " + b}}).Type(); joined != got {
			t.Fatalf("in two fields %+v, in one %+v", got, joined)
		}
		h.TypeOf([]byte(body))
	})
}
