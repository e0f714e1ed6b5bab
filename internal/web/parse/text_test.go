package parse

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// texts returns a line for each link of a page: URL, kind, rel, anchor text and whether it is nofollow.
func texts(body, contentType string) []string {
	var p Page
	Parse(Input{URL: weburl.MustParse("http://a.example/"), ContentType: contentType, Body: []byte(body)},
		Options{Texts: true, Requisites: true}, &p)
	var out []string
	p.Each(func(l *Link, anchor, rel []byte) {
		s := fmt.Sprintf("%s %s [%s] %q", l.URL.Path(), l.Tag, rel, anchor)
		if l.NoFollow {
			s += " nofollow"
		}
		out = append(out, s)
	})
	return out
}

func TestTexts(t *testing.T) {
	long := strings.Repeat("word ", 100)
	for _, c := range []struct{ name, body, contentType, want string }{
		{"plain", `<a href=/1>One</a><a href=/2> two  &amp;
		 more </a>`, "", `/1 a@href [] "One"; /2 a@href [] "two & more"`},
		{"markup", `<a href=/1><b>bo</b>ld<div>box</div>end<!-- <a> no --><br>x</a>`, "",
			`/1 a@href [] "bold box end x"`},
		{"images", `<a href=/1><img src=/i alt="A &quot;picture&quot;">by me</a>`, "",
			`/1 a@href [] "A \"picture\" by me"; /i img@src [] ""`},
		{"raw text", `<a href=/1>a<script>var x = "<b>no</b>"</script>b<style>p{}</style>c</a>`, "", `/1 a@href [] "a b c"`},
		{"no end tag", `<a href=/1>one<a href=/2>two`, "", `/1 a@href [] "one"; /2 a@href [] "two"`},
		{"less than", `<a href=/1>1 < 2 <3</a>`, "", `/1 a@href [] "1 < 2 <3"`},
		{"rel", `<a href=/1 rel="NoFollow  ugc">x</a><link rel="Next" href=/2><area href=/3 alt=map rel=tag>`, "",
			`/1 a@href [nofollow ugc] "x" nofollow; /2 link@href [next] ""; /3 area@href [tag] "map"`},
		{"mentions", `<a href=/1 rel=nofollow><img></a><a href=/1 rel=author>later</a><a href=/1>last</a>`, "",
			`/1 a@href [author] "later"`},
		{"page says nofollow", `<meta name=robots content=nofollow><a href=/1>x</a><img src=/2>`, "",
			`/1 a@href [] "x" nofollow; /2 img@src [] ""`},
		{"rewind", `<a href=1>x</a><base href=/d/><a href=2>y</a>`, "", `/d/1 a@href [] "x"; /d/2 a@href [] "y"`},
		{"charset", "<a href=/1>caf\xe9</a>", "text/html; charset=iso-8859-1", `/1 a@href [] "café"`},
		{"hostile", "<a href=/1>\x1b[31m\x00red\xff\u202e\u0085end</a>", "text/html; charset=utf-8",
			`/1 a@href [] "[31m red \u202e end"`},
		{"hostile rel", "<a href=/1 rel='\x1b[m \xff ok " + long + "'>x</a>", "",
			`/1 a@href [ok ` + strings.TrimSpace(strings.Repeat("word ", 12)) + `] "x"`},
		{"long", `<a href=/1>` + long + `</a>`, "", `/1 a@href [] "` + long[:256] + `"`},
		{"svg", `<svg><a xlink:href=/1><text>label</text></a><a href=/2 /></svg>`, "",
			`/1 svg:a@href [] "label"; /2 svg:a@href [] ""`},
		{"xhtml", `<html xmlns="http://www.w3.org/1999/xhtml"><a href="/1"/>no<a href="/2">yes</a></html>`,
			"application/xhtml+xml", `/1 a@href [] ""; /2 a@href [] "yes"`},
	} {
		if c.contentType == "" {
			c.contentType = "text/html"
		}
		if got := strings.Join(texts(c.body, c.contentType), "; "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A page cannot make the parser keep more than a bounded amount of text.
func TestTextsAreBounded(t *testing.T) {
	anchor := strings.Repeat("abcd efgh ", 1<<20)
	if got := texts("<a href=/1>"+anchor+"</a>", "text/html"); len(got) != 1 || len(got[0]) > maxAnchor+40 {
		t.Errorf("an anchor of 10 MB gives %.400q", got)
	}
	var b strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&b, "<a href=/%d>%s</a>", i, anchor[:300])
	}
	var p Page
	Parse(Input{URL: weburl.MustParse("http://a.example/"), ContentType: "text/html", Body: []byte(b.String())},
		Options{Texts: true}, &p)
	links, with := 0, 0
	p.Each(func(_ *Link, anchor, _ []byte) {
		links++
		if len(anchor) > 0 {
			with++
		}
	})
	if links != 40_000 || with < 4000 || len(p.work.said) > maxTexts+maxAnchor+maxRel {
		t.Errorf("%d links, %d with an anchor text, %d bytes of text", links, with, len(p.work.said))
	}
	if p.Release(); cap(p.work.said) > maxKept || cap(p.work.texts) > maxKept {
		t.Errorf("%d bytes of text and %d texts are kept", cap(p.work.said), cap(p.work.texts))
	}
}

// The links of a page do not depend on Options.Texts, and without Texts nothing is kept.
func TestTextsChangeNoLink(t *testing.T) {
	for _, s := range snippets {
		body := s + "<a href=x rel=nofollow>t</a>" + s
		var with, without Page
		in := Input{URL: weburl.MustParse("http://a.example/"), ContentType: "text/html", Body: []byte(body)}
		Parse(in, Options{Requisites: true, Texts: true}, &with)
		Parse(in, Options{Requisites: true}, &without)
		if got, want := lines(&with), lines(&without); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
		if w := &without.work; cap(w.said) > 0 || cap(w.texts) > 0 || cap(w.anchor) > 0 {
			t.Errorf("%q: texts were kept", body)
		}
	}
}

// TestAnchor: Anchor tells of each of Links what Each tells, and nothing on a page that says nofollow.
func TestAnchor(t *testing.T) {
	read := func(head string) *Page {
		p := new(Page)
		Parse(Input{URL: weburl.MustParse("http://a.example/"), ContentType: "text/html", Body: []byte(head +
			`<a href=/1>one</a><img src=/2><a href=/3></a><a href=/4> the  fourth </a><a href=/3>late</a>`)},
			Options{Texts: true, Requisites: true}, p)
		return p
	}
	p, i := read(""), 0
	p.Each(func(l *Link, anchor, _ []byte) {
		if got := p.Anchor(i); p.Links[i].URL != l.URL || string(got) != string(anchor) {
			t.Errorf("%s: %q, want %q", l.URL, got, anchor)
		}
		i++
	})
	if i != 4 || string(p.Anchor(3)) != "the fourth" || string(p.Anchor(2)) != "late" || p.Anchor(4) != nil {
		t.Errorf("%d links, %q, %q", i, p.Anchor(3), p.Anchor(2))
	}
	if p = read(`<meta name=robots content=nofollow>`); len(p.Links) != 1 || p.Anchor(0) != nil {
		t.Errorf("nofollow: %d links, %q", len(p.Links), p.Anchor(0))
	}
}
