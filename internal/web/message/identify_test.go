package message

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed
)

func TestIdentify(t *testing.T) {
	for _, c := range []struct{ body, declared, want string }{
		{"", "text/html", ""},
		{"<!DOCTYPE html><title>x</title>", "text/html", "text/html"},
		{"<!DOCTYPE html><title>x</title>", "image/png", "text/html"},
		{"<!DOCTYPE html><title>x</title>", "text/plain", "text/html"},
		{"<html xmlns='http://www.w3.org/1999/xhtml'>", "application/xhtml+xml", "application/xhtml+xml"},
		{"<?xml version='1.0'?><!DOCTYPE html><HTML>", "text/html", "text/html"},
		{"<?xml version='1.0'?><rss/>", "application/rss+xml", "application/rss+xml"},
		{"<?xml version='1.0'?><rss/>", "text/html", "text/xml"},
		{"<?xml version='1.0'?><rss/>", "image/png", "text/xml"},
		{"<!-- a comment --><svg/>", "image/svg+xml", "image/svg+xml"},
		{"<!-- a comment --> a { }", "text/css", "text/css"},
		{"<!-- a comment --><html>", "text/css", "text/html"},
		{"<!-- a comment -->", "image/png", "text/html"},
		{"a { color: red }", "text/css", "text/css"},
		{`{"a":1}`, "application/ld+json", "application/ld+json"},
		{`{"a":1}`, "application/octet-stream", "text/plain"},
		{"just words", "image/png", "text/plain"},
		{"just words", "", "text/plain"},
		{"\x89PNG\r\n\x1a\nxxxx", "text/html", "image/png"},
		{"%PDF-1.7\n", "application/octet-stream", "application/pdf"},
		{"PK\x03\x04xxxx", "application/epub+zip", "application/epub+zip"},
		{"PK\x03\x04xxxx", "text/html", "application/zip"},
		{"\x00\x01\x02\x03", "application/x-unknown", ""}, // nothing confirms it
		{"\x00\x01\x02\x03", "", ""},
		{"\x00\x01\x02\x03", "text/plain", "application/octet-stream"},
	} {
		if got := Identify([]byte(c.body), c.declared); got != c.want {
			t.Errorf("%q, declared as %q: got %q, want %q", c.body, c.declared, got, c.want)
		}
	}
	page := []byte("<!DOCTYPE html>" + strings.Repeat("x", 4000))
	if n := testing.AllocsPerRun(100, func() { Identify(page, "text/html") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCharsetName(t *testing.T) {
	for in, want := range map[string]string{
		"utf-8": "UTF-8", "UTF8": "UTF-8", "latin1": "windows-1252", "sjis": "Shift_JIS", "big5": "Big5",
		"koi8-r": "KOI8-R", "iso-8859-2": "ISO-8859-2", "gbk": "GBK", "GB18030": "gb18030", "utf-16": "UTF-16LE",
		"euc-jp": "EUC-JP", "x-mac-cyrillic": "x-mac-cyrillic", "iso-2022-kr": "", "": "", "nonsense": "",
		"utf-8\r\nX: y": "", strings.Repeat("u", 10_000): "",
	} {
		if got := CharsetName(in); got != want {
			t.Errorf("%.20q: got %q, want %q", in, got, want)
		}
	}
}

func TestLanguages(t *testing.T) {
	for in, want := range map[string]string{
		"en": "eng", "en-US": "eng", "de": "deu", "zh-Hans-CN": "zho", "fr_CA": "fra", "no": "nor", "iw": "heb",
		"ger": "deu", "gsw": "gsw", "en, fr;q=1, de": "eng,deu", "de,de-AT": "deu", "mul": "", "und": "",
		"x-klingon": "",
		"":          "", "english": "", "de\r\nX: y": "",
		"aa,ab,af,am,ar,as": "aar,abk,afr,amh", "\xff\xfe": "",
		strings.Repeat("de", 10_000): "",
	} {
		if got := Languages(in); got != want {
			t.Errorf("%.30q: got %q, want %q", in, got, want)
		}
	}
}

// Whatever a server sends, the values fit into a line of a record and of an index.
func TestNamesAreClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9,_ -]{0,30}`)).Draw(t, "in")
		if l := Languages(in); l != "" && !IsLanguages(l) {
			t.Errorf("Languages(%q) is %q", in, l)
		}
		if c := CharsetName(in); c != "" && CharsetName(c) != c {
			t.Errorf("CharsetName(%q) is %q, and that of it %q", in, c, CharsetName(c))
		}
		if y := Identify([]byte(in), in); y != "" && y != in && !IsType(y) {
			t.Errorf("Identify(%q) is %q", in, y)
		}
	})
}
