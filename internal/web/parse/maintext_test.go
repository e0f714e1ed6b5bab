package parse

import (
	"cmp"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestMainText: blocks of links, short blocks and elements of navigation are not main text; links within text are.
func TestMainText(t *testing.T) {
	one := "The first paragraph has words enough for a block of main text, and goes on for a second line of words."
	two := "Another paragraph has as many words as that, and again it goes on for a second line of words, to be long."
	all := one + " " + two
	menu := strings.Repeat("<li>\n\t<a href=/x>An entry of the menu with words enough for a block</a>\n</li>", 40)
	for _, c := range []struct{ name, body, contentType, want string }{
		{"plain page", "<title>T</title><p>" + one + "<p>" + two, "", all},
		{"menu before and after", "<ul>" + menu + "</ul><p>" + one + "</p><h2>Head</h2><p>" + two + "</p>" + menu, "",
			all},
		{"links within text", "<p>" + strings.Replace(one, "words", "<a href=/w>words</a>", 1) + "<p>" + two, "", all},
		{"a line of links", "<p><a href=/1>" + one + "</a> | <a href=/2>" + two + "</a></p><p>" + one + "<p>" + two, "",
			all},
		{"a link over blocks", "<a href=/x><div>" + two + "</div><div>" + one + "</div></a><p>" + one + "<p>" + two, "",
			all},
		{"a name is no link", "<a name=top><p>" + one + "<p>" + two, "", all},
		{"navigation", "<nav>" + two + "</nav><header>" + two + "<nav>x</nav>" + two + "</header><p>" + one +
			"<select><option>" + one + "</select></footer><p>" + two + "<footer>" + one, "", all},
		{"short blocks", "<div>About the authors</div><p>" + one + "</p><td>12.50<td><p>" + two, "", all},
		{"too short", "<p>" + one, "", ""},
		{"links alone", menu, "", ""},
		{"plain text", all, "text/plain", ""},
		{"feed", "<rss version='2.0'><channel><title>" + all + "</title></channel></rss>", "application/rss+xml", ""},
		{"xhtml", "<html xmlns='http://www.w3.org/1999/xhtml'><body><a href='/x'/><nav/><p>" + one + "</p><p>" + two +
			"</p></body></html>", "application/xhtml+xml", all},
		{"latin-1", "<p>caf\xe9 " + one + "<p>" + two, "text/html; charset=iso-8859-1", "café " + all},
	} {
		var p Page
		in := Input{URL: weburl.MustParse("http://a.example/"), Body: []byte(c.body),
			ContentType: cmp.Or(c.contentType, "text/html")}
		Parse(in, Options{}, &p)
		p.AppendProse([]byte("what was there before is not text of the page "), in.Body)
		if got := strings.Join(strings.Fields(string(p.MainText())), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	var p Page
	long := []byte("<p>" + strings.Repeat(one, 100) + strings.Repeat("<p>"+one, 100))
	Parse(Input{URL: weburl.MustParse("http://a.example/"), ContentType: "text/html", Body: long}, Options{}, &p)
	p.AppendProse(nil, long)
	if n := len(p.MainText()); n != maxMain {
		t.Errorf("%d bytes of a long page, want %d", n, maxMain)
	}
	p.AppendProse(nil, []byte("short"))
	if n := len(p.MainText()); n != 0 {
		t.Errorf("%d bytes are left of the page before", n)
	}
}
