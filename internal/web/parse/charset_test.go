package parse

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

func encoded(t testing.TB, e encoding.Encoding, s string) string {
	t.Helper()
	out, err := e.NewEncoder().String(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return out
}

func TestCharset(t *testing.T) {
	utf16le := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	utf16be := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	far := strings.Repeat(" ", prescanned)
	tests := []struct{ name, contentType, in, want string }{
		{"none", "text/html", "x", "windows-1252"},
		{"none, though UTF-8", "text/html", "\u00e9", "windows-1252"},
		{"mark over transport", "text/html; charset=koi8-r", "\ufeffx", "utf-8"},
		{"mark of UTF-16", "text/html; charset=koi8-r", "\xfe\xff\x00<", "utf-16be"},
		{"transport over meta", `text/html; charset="KOI8-R"`, "<meta charset=utf-8>", "koi8-r"},
		{"transport, odd", `text/html; a; b="c;charset=no"; charset=koi8-r`, "", "koi8-r"},
		{"transport unknown", "text/html; charset=nosuch", "<meta charset=koi8-r>", "koi8-r"},
		{"latin1 is windows-1252", "text/html; charset=iso-8859-1", "", "windows-1252"},
		{"meta", "text/html", "<meta charset= 'Shift_JIS' >", "shift_jis"},
		{"meta with http-equiv", "text/html", "<meta content='text/html; charset=\"euc-jp\"' http-equiv=Content-Type>",
			"euc-jp"},
		{"content without http-equiv", "text/html", "<meta content='text/html; charset=euc-jp'>", "windows-1252"},
		{"content with charset twice", "text/html",
			"<meta http-equiv=content-type content='charset charset = big5;'>", "big5"},
		{"charset before content", "text/html", "<meta http-equiv=content-type content='charset=big5' charset=koi8-r>",
			"koi8-r"},
		{"bad charset before content", "text/html",
			"<meta http-equiv=content-type content='charset=big5' charset=nosuch><meta charset=gbk>", "gbk"},
		{"meta in a comment", "text/html", "<!-- <meta charset=koi8-r> --><meta charset=gbk>", "gbk"},
		{"meta in an attribute", "text/html", "<p title='<meta charset=koi8-r>'><meta charset=gbk>", "gbk"},
		{"meta in a script", "text/html", "<script>'<meta charset=koi8-r>'</script>", "koi8-r"},
		{"late meta", "text/html", far + "<meta charset=koi8-r>", "koi8-r"},
		{"late meta, cut off at the end of the prescan", "text/html", far[10:] + "<meta charset=koi8-r>", "koi8-r"},
		{"late meta in the body", "text/html", "<body><p>" + far + "<meta charset=koi8-r>", "koi8-r"},
		{"late meta in a template", "text/html", far + "<template><meta charset=koi8-r>", "koi8-r"},
		{"late meta ends foreign content", "text/html", far + "<svg><meta charset=koi8-r>", "koi8-r"},
		{"late meta with http-equiv", "text/html",
			far + "<meta http-equiv=content-type content='x; charset=big5'>", "big5"},
		{"bad late charset before content", "text/html",
			far + "<meta http-equiv=content-type content='charset=big5' charset=nosuch>", "big5"},
		{"first late meta", "text/html", far + "<meta charset=nosuch><meta charset=gbk><meta charset=koi8-r>", "gbk"},
		{"late meta with the fallback", "text/html",
			far + "<meta charset=latin1><meta charset=koi8-r>", "windows-1252"},
		{"late meta says UTF-16", "text/html", far + "<meta charset=utf-16>", "utf-8"},
		{"late meta in a comment", "text/html", far + "<!-- <meta charset=koi8-r> -->", "windows-1252"},
		{"late meta in a script", "text/html", far + "<script>'<meta charset=koi8-r>'</script>", "windows-1252"},
		{"late meta in a title", "text/html", far + "<title><meta charset=koi8-r></title>", "windows-1252"},
		{"late meta after an early one", "text/html", "<meta charset=gbk>" + far + "<meta charset=koi8-r>", "gbk"},
		{"late meta after a mark", "text/html", "\ufeff" + far + "<meta charset=koi8-r>", "utf-8"},
		{"late meta after transport", "text/html; charset=gbk", far + "<meta charset=koi8-r>", "gbk"},
		{"late meta in XHTML", "application/xhtml+xml", "<html>" + far + "<meta charset='koi8-r'/></html>", "utf-8"},
		{"meta says UTF-16", "text/html", "<meta charset=utf-16>", "utf-8"},
		{"meta says x-user-defined", "text/html", "<meta charset=x-user-defined>", "windows-1252"},
		{"XML declaration of HTML", "text/html", "<?xml version='1.0' encoding='koi8-r'?>", "koi8-r"},
		{"XML", "text/xml", "<html/>", "utf-8"},
		{"XML declaration", "text/xml", "<?xml version='1.0' encoding = \"koi8-r\"?><html/>", "koi8-r"},
		{"XML in UTF-16 without mark", "text/xml", encoded(t, utf16le, "<?xml version='1.0'?><html/>"), "utf-16le"},
		{"CSS", "text/css", "x", "utf-8"},
		{"CSS that declares", "text/css", "@charset \"koi8-r\"; x", "koi8-r"},
	}
	for _, tt := range tests {
		var p Page
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: tt.contentType, Body: []byte(tt.in)}, Options{}, &p)
		if p.Charset != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, p.Charset, tt.want)
		}
	}

	const page = "<title>日本</title><a href='日?本=日#本'>"
	const inUTF8 = "L %E6%97%A5?%E6%9C%AC=%E6%97%A5 a@href"
	links := []struct{ name, contentType, in, want, title string }{
		{"UTF-8", "text/html; charset=utf-8", page, inUTF8, "日本"},
		{"UTF-16LE", "text/html; charset=utf-16", encoded(t, utf16le, page), inUTF8, "日本"},
		{"UTF-16BE", "text/html", "\xfe\xff" + encoded(t, utf16be, page), inUTF8, "日本"},
		{"ISO-2022-JP", "text/html; charset=iso-2022-jp", encoded(t, japanese.ISO2022JP, page), inUTF8, "日本"},
		{"Shift_JIS", "text/html; charset=shift_jis", encoded(t, japanese.ShiftJIS, page),
			"L %E6%97%A5?%96%7B=%93%FA a@href", "日本"},
		{"EUC-JP", "text/html; charset=euc-jp", encoded(t, japanese.EUCJP, page),
			"L %E6%97%A5?%CB%DC=%C6%FC a@href", "日本"},
		{"GBK", "text/html; charset=gb2312", encoded(t, simplifiedchinese.GBK, page),
			"L %E6%97%A5?%B1%BE=%C8%D5 a@href", "日本"},
		{"windows-1252", "text/html", "<title>\xe9</title><a href='\xe9?\xe9=\x80&eacute;&#26085;'>",
			"L %C3%A9?%E9=%80%E9%26%2326085%3B a@href", "é"},
		{"late meta after links and title", "text/html",
			"<title>日</title><a href='日?本'>" + far + "<meta charset=utf-8><a href='本'>",
			"L %E6%97%A5?%E6%9C%AC a@href, L %E6%9C%AC a@href", "日"},
		{"late meta, before and after a base", "text/html",
			"<a href=1><base href='/日/'>" + far + "<meta charset=utf-8><a href='本'>",
			"L https://a.example/%E6%97%A5/1 a@href, L https://a.example/%E6%97%A5/%E6%9C%AC a@href", ""},
		{"late ISO-2022-JP", "text/html", far + "<meta charset=iso-2022-jp>" + encoded(t, japanese.ISO2022JP, page),
			inUTF8, "日本"},
		{"late replacement", "text/html", "<a href=no>" + far + "<meta charset=iso-2022-kr><a href=no>", "", ""},
		{"replacement", "text/html; charset=iso-2022-kr", "<title>x</title><a href=no>", "", ""},
		{"a second byte that looks like ASCII", "text/html; charset=shift_jis",
			"<a href='\x83\x5c'><a title='\x83' href=1>", "L %E3%82%BD a@href, L 1 a@href", ""},
	}
	for _, tt := range links {
		var p Page
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: tt.contentType, Body: []byte(tt.in)}, Options{}, &p)
		if got := shortLinks(&p); got != tt.want || p.Title != tt.title {
			t.Errorf("%s: got title %q, want %q\ngot  %s\nwant %s", tt.name, p.Title, tt.title, got, tt.want)
		}
	}
}

// TestCSSCharset checks that CSS is decoded and that its references are UTF-8 in documents
// of any encoding.
func TestCSSCharset(t *testing.T) {
	tests := []struct{ contentType, in, want string }{
		{"text/css; charset=windows-1252", "a{b:url(\xe9?\xe9)}", "E %C3%A9?%C3%A9 css:url"},
		{"text/html", "<style>a{b:url(\xe9?\xe9)}</style>", "E %C3%A9?%C3%A9 style:url"},
		{"text/html", "<p style='b:url(\xe9?&eacute;)'>", "E %C3%A9?%C3%A9 @style:url"},
	}
	for _, tt := range tests {
		var p Page
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: tt.contentType, Body: []byte(tt.in)},
			Options{Requisites: true}, &p)
		if got := shortLinks(&p); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.contentType, tt.in, got, tt.want)
		}
	}
}
