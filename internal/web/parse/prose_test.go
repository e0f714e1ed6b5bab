package parse

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// prose returns the prose of a page with white space collapsed.
func prose(body, contentType string) string {
	var p Page
	in := Input{URL: weburl.MustParse("http://a.example/"), ContentType: contentType, Body: []byte(body)}
	Parse(in, Options{}, &p)
	text := p.AppendProse(nil, in.Body)
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestProse(t *testing.T) {
	for _, c := range []struct{ name, body, contentType, want string }{
		{"page", "<!doctype html><title>The &amp; title</title><h1>He<b>ad</b></h1><p>one<br>two<!-- no --></p>", "",
			"The & title Head one two"},
		{"scripts and styles", "<script>var a = '<p>no</p>'</script>a<style>p { b: c }</style>b<noscript>c</noscript>",
			"", "a b c"},
		{"raw text", "a<textarea>typed</textarea><iframe><p>no</iframe>b</>c</ d>e", "text/html", "a bce"},
		{"no tags", "1 < 2 <3 &lt;b&gt;", "text/html", "1 < 2 <3 <b>"},
		{"cut off", "seen<a href='never", "text/html", "seen"},
		{"latin-1", "<p>caf\xe9 &eacute;", "text/html; charset=iso-8859-1", "café é"},
		{"utf-16", "\xff\xfe<\x00p\x00>\x00h\x00\xe9\x00", "text/html", "hé"},
		{"byte order mark", "\xef\xbb\xbf<p>x", "text/html", "x"},
		{"declared late", "<p>\xe9</p>" + strings.Repeat(" ", 2000) + "<meta charset=windows-1252>", "text/html", "é"},
		{"xhtml", "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><head><title>T</title>" +
			"<style>p</style><script src='x'/></head><body>a<br/>b</body></html>", "application/xhtml+xml", "T a b"},
		{"plain text", "<b> &amp; caf\xc3\xa9", "text/plain", "<b> &amp; café"},
		{"invalid", "a\xffb\x00c", "text/html; charset=utf-8", "a\ufffdb\ufffdc"},
		{"feed", "<rss version='2.0'><channel><title>x</title></channel></rss>", "application/rss+xml", ""},
		{"style sheet", "p { color: red }", "text/css", ""},
	} {
		if got := prose(c.body, c.contentType); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzProse: no body breaks AppendProse, and the lengths of prose and main text are bounded.
func FuzzProse(f *testing.F) {
	for _, body := range []string{"", "<", "</", "<p", "<script>", "<!--", "<title>", "&amp", "<?xml?><p/>"} {
		f.Add([]byte(body), "text/html")
		f.Add([]byte(body), "application/xhtml+xml")
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		var p Page
		in := Input{URL: weburl.MustParse("http://a.example/"), ContentType: contentType, Body: body}
		Parse(in, Options{}, &p)
		if got := p.AppendProse(nil, body); len(got) > 16+6*len(body) {
			t.Errorf("%d bytes of prose from %d", len(got), len(body))
		}
		if got := p.MainText(); len(got) > maxMain {
			t.Errorf("%d bytes of main text", len(got))
		}
	})
}
