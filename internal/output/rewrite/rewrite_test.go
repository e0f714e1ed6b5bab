package rewrite

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/text/encoding/unicode"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var here = weburl.MustParse("http://a.example/dir/page")

// toArchive maps each URL to a short form: the use, and the URL without its scheme.
func toArchive(r Ref) string {
	if r.Relative {
		return ""
	}
	_, rest, _ := strings.Cut(r.URL.String(), "://")
	if r.URL.Host() == "rel.example" {
		return "../" + rest
	}
	return "M" + string("FfLoB"[r.Use]) + ":" + rest + r.Fragment
}

func rewriteAs(mime, body string) Result {
	return Document(parse.Input{URL: here, ContentType: mime, Body: []byte(body)},
		Rules{Map: toArchive, Head: "<HEAD>"})
}

func TestHTML(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"relative references stay", `<a href=x><img src="/y"><a href="?q#z">`,
			`<a href=x><img src="/y"><a href="?q#z">`},
		{"a fragment stays", `<a href="#z">`, `<a href="#z">`},
		{"other schemes stay", `<a href="mailto:a@b"><a href="javascript:x()"><img src="data:,">`,
			`<a href="mailto:a@b"><a href="javascript:x()"><img src="data:,">`},
		{"absolute", `<a  class=x HREF=http://b.example/?a&amp;b=1#f id='y'>t</A>`,
			`<a  class=x HREF="MF:b.example/?a&amp;b=1#f" id='y'>t</A>`},
		{"without a scheme", `<img src='//b.example/i.png'><img src="\\b.example\i">`,
			`<img src="ML:b.example/i.png"><img src="ML:b.example/i">`},
		{"hidden in line ends", "<a href='ht\ntp://b.example/'><a href=\" /\t/b.example/x\">",
			`<a href="MF:b.example/"><a href="MF:b.example/x">`},
		{"no blank after a value", `<a href="http://b.example/"id=x>`, `<a href="MF:b.example/" id=x>`},
		{"unquoted with slash", `<a href=http://b.example/>`, `<a href="MF:b.example/">`},
		{"frames, forms, objects",
			`<iframe src=//b.example></iframe><form action=//b.example/f><object data=//b.example/o>`,
			`<iframe src="Mf:b.example/"></iframe><form action="Mo:b.example/f"><object data="ML:b.example/o">`},
		{"candidates", `<img srcset="//b.example/1 1x, 2 2x,http://b.example/3">`,
			`<img srcset="ML:b.example/1 1x, 2 2x,ML:b.example/3">`},
		{"style attribute", `<p style="color:red;background:url(&quot;//b.example/1&quot;)">`,
			`<p style="color:red;background:url(&quot;ML:b.example/1&quot;)">`},
		{"style element", `<style>@import "//b.example/s"; a{b:url( //b.example/t )}</style>`,
			`<style>@import "ML:b.example/s"; a{b:url( "ML:b.example/t" )}</style>`},
		{"refresh", `<meta http-equiv=Refresh content="5; URL='http://b.example/n'">`,
			`<meta http-equiv=Refresh content="5;url=MF:b.example/n">`},
		{"refresh without a comma", `<meta http-equiv=refresh content='0.5 "//b.example/n'>`,
			`<meta http-equiv=refresh content="0.5;url=MF:b.example/n">`},
		{"removed", `<script src=x integrity=abc crossorigin></script><a href=x ping=http://b.example/>`,
			`<script src=x  ></script><a href=x >`},
		{"policies", `<meta http-equiv="Content-Security-Policy" content="default-src 'none'">`,
			`<meta  content="default-src 'none'">`},
		{"hints", `<link rel="dns-prefetch" href="//b.example"><link rel="x preconnect" href="//b.example">`,
			`<link rel="dns-prefetch" ><link rel="x preconnect" >`},
		{"links", `<link rel=stylesheet href=//b.example/s><link rel=next href=//b.example/n>`,
			`<link rel=stylesheet href="ML:b.example/s"><link rel=next href="MF:b.example/n">`},
		{"speculation", `<script type="speculationrules">{"a":1}</script>`,
			`<script type="text/plain">{"a":1}</script>`},
		{"scripts and comments stay",
			`<script>"<a href='http://b.example/'>"</script><!-- <a href=http://b.example/> -->`,
			`<script>"<a href='http://b.example/'>"</script><!-- <a href=http://b.example/> -->`},
		{"noscript", `<noscript><img src=//b.example/p></noscript>`, `<noscript><img src="ML:b.example/p"></noscript>`},
		{"srcdoc", `<iframe srcdoc="<a href='//b.example/'>x</a>"></iframe>`,
			`<iframe srcdoc="&lt;a href=&quot;MF:b.example/&quot;&gt;x&lt;/a&gt;"></iframe>`},
		{"srcdoc with a base", `<iframe srcdoc="<base href=//c.example/d/><a href=x>"></iframe><a href=//b.example/>`,
			`<iframe srcdoc="&lt;base href=&quot;MB:c.example/d/&quot;&gt;&lt;a href=&quot;MF:c.example/d/x&quot;&gt;">` +
				`</iframe><a href="MF:b.example/">`},
		{"backgrounds", `<table><thead background=//b.example/1><tr background=//b.example/2><tbody background=//b.example/3>`,
			`<table><thead background="ML:b.example/1"><tr background="ML:b.example/2"><tbody background="ML:b.example/3">`},
		{"style in SVG", `<svg><style><![CDATA[a > b{c:url(//b.example/?x&y)}]]><!-- - -->d{}</style><image href=//b.example/i /></svg>`,
			`<svg><style>a > b{c:url("ML:b.example/?x&amp;y")}d{}</style><image href="ML:b.example/i" /></svg>`},
		{"SVG", `<svg><use xlink:href="//b.example/s.svg#i"/><image href="#g"/></svg>`,
			`<svg><use xlink:href="ML:b.example/s.svg#i"/><image href="#g"/></svg>`},
	} {
		got := string(rewriteAs("text/html; charset=utf-8", "<html><head><title>t</title>"+c.in).Body)
		if want := "<html><head><HEAD><title>t</title>" + c.want; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, want)
		}
	}
}

// The style of XHTML and SVG is its whole text. The other references of XML are found whatever their prefix.
func TestXML(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`<html><style>/*<![CDATA[*/ a > b { c:url(//b.example/1) } /*]]>*/</style></html>`,
			`<html><style>/**/ a > b { c:url("ML:b.example/1") } /**/</style></html>`},
		{`<html><style>a &gt; b { c:url(//b.example/?x=1&amp;y) }</style></html>`,
			`<html><style>a > b { c:url("ML:b.example/?x=1&amp;y") }</style></html>`},
		{`<svg><style> a{b:url(//b.example/1#x)}<![CDATA[ ]]> <![CDATA[ c{d:url("//b.example/2")} /* é < ]]]]>&gt; */</style></svg>`,
			`<svg><style> a{b:url("ML:b.example/1#x")}   c{d:url("ML:b.example/2")} /* &#xe9; &lt; ]]&gt; */</style></svg>`},
		{`<svg><style><!-- c --><![CDATA[a{b:url(1)} é]]></style></svg>`, `<svg><style><!-- c --><![CDATA[a{b:url(1)} é]]></style></svg>`},
		{`<?xml version="1.0"?><?xml-stylesheet type="text/css" href="//b.example/s?a&amp;b"?><?xml-stylesheet href='t'?><svg/>`,
			`<?xml version="1.0"?><?xml-stylesheet type="text/css" href="ML:b.example/s?a&amp;b" ?><?xml-stylesheet href='t'?><svg/>`},
		{`<?xml-stylesheet href="/s"?><html><base href="//c.example/"/><a href="/y"/></html>`,
			`<?xml-stylesheet href="/s"?><html><base href="MB:c.example/"/><a href="MF:c.example/y"/></html>`},
		{`<h:html><h:link rel="stylesheet" href="//b.example/1"/><h:style>@import "//b.example/2";</h:style><h:img srcset="//b.example/3"/></h:html>`,
			`<h:html><h:link rel="stylesheet" href="ML:b.example/1"/><h:style>@import "ML:b.example/2";</h:style><h:img srcset="ML:b.example/3"/></h:html>`},
		{`<s:svg><s:use xl:href="//b.example/1#a"/><s:a xl:href="//b.example/2"/></s:svg>`,
			`<s:svg><s:use xl:href="ML:b.example/1#a"/><s:a xl:href="MF:b.example/2"/></s:svg>`},
	} {
		res := Document(parse.Input{URL: here, ContentType: "text/xml; charset=utf-8", Body: []byte(c.in)},
			Rules{Map: toArchive})
		if got := string(res.Body); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.in, got, c.want)
		}
		if got := missed("text/xml; charset=utf-8", c.in); got != "" {
			t.Errorf("%s: missed %s", c.in, got)
		}
	}
}

// In feeds, links in attributes and in texts change. In XML of another kind, namespaces tell what is a reference. Bases
// stay, and so do references below them whose new ones are relative.
func TestFeedsAndXML(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`<?xml-stylesheet href="//b.example/s.xsl"?><rss><channel><link>//b.example/?a&amp;b</link>` +
			`<atom:link rel='self' href='//b.example/'/>` +
			`<item><link> <![CDATA[http://b.example/1?a&b]]><!-- c --></link><guid>http://b.example/1</guid>` +
			`<enclosure url="//b.example/2" length="1"/>` +
			`<comments>3</comments><link>/4</link><title>http://b.example/</title></item></channel></rss>`,
			`<?xml-stylesheet href="ML:b.example/s.xsl"?><rss><channel><link>MF:b.example/?a&amp;b</link>` +
				`<atom:link rel='self' href='MF:b.example/'/>` +
				`<item><link>MF:b.example/1?a&amp;b</link><guid>http://b.example/1</guid>` +
				`<enclosure url="ML:b.example/2" length="1"/>` +
				`<comments>3</comments><link>/4</link><title>http://b.example/</title></item></channel></rss>`},
		{`<feed xmlns="http://www.w3.org/2005/Atom"><link href="//b.example/é#f"/><link href="x"/>` +
			`<link rel="edit" href="//b.example/"/><id>http://b.example/</id></feed>`,
			`<feed xmlns="http://www.w3.org/2005/Atom"><link href="MF:b.example/%C3%A9#f"/><link href="x"/>` +
				`<link rel="edit" href="//b.example/"/><id>http://b.example/</id></feed>`},
		{`<feed xml:base="http://b.example/x/"><link href="1"/><entry xml:base='y/'><link href="2"/><icon>3` +
			`</icon></entry></feed>`,
			`<feed xml:base="http://b.example/x/"><link href="MF:b.example/x/1"/>` +
				`<entry xml:base='y/'><link href="MF:b.example/x/y/2"/>` +
				`<icon>ML:b.example/x/y/3</icon></entry></feed>`},
		{`<feed><entry><link href="http://b.example/1"/><content type="html" xml:base="http://h/post/1/">` +
			`<![CDATA[<a href="rel">]]></content><content xml:base="/c/" src="http://rel.example/"/></entry></feed>`,
			`<feed><entry><link href="MF:b.example/1"/><content type="html" xml:base="http://h/post/1/">` +
				`<![CDATA[<a href="rel">]]></content><content xml:base="/c/" src="http://rel.example/"/></entry></feed>`},
		{`<doc xmlns:h="http://www.w3.org/1999/xhtml" xml:base="http://b.example/x/">` +
			`<h:img srcset="a.png 1x" src="//rel.example/"/></doc>`,
			`<doc xmlns:h="http://www.w3.org/1999/xhtml" xml:base="http://b.example/x/">` +
				`<h:img srcset="a.png 1x" src="//rel.example/"/></doc>`},
		{`<!DOCTYPE rss [<!ENTITY x "http://c.example/">]><rss><link>&x;foo</link><enclosure url="//b.example/&x;&amp;"/>` +
			`<link>//b.example/?a&b=&amp;&#38;</link></rss>`,
			`<!DOCTYPE rss [<!ENTITY x "http://c.example/">]><rss><link>&x;foo</link><enclosure url="//b.example/&x;&amp;"/>` +
				`<link>MF:b.example/?a&amp;b=&amp;&amp;</link></rss>`},
		{`<doc xmlns:h="http://www.w3.org/1999/xhtml"><a href="//b.example/"/><h:a href="//b.example/1"/>` +
			`<h:img src="2"/><x xl:href='//b.example/3'/><x xl:href="#4"/></doc>`,
			`<doc xmlns:h="http://www.w3.org/1999/xhtml"><a href="//b.example/"/><h:a href="MF:b.example/1"/>` +
				`<h:img src="2"/><x xl:href='MF:b.example/3'/><x xl:href="#4"/></doc>`},
		{`<doc><x xl:href="/1"/><base xmlns="http://www.w3.org/1999/xhtml" href="//b.example/"/>` +
			`<x xl:href="#4"/></doc>`,
			`<doc><x xl:href="MF:b.example/1"/>` +
				`<base xmlns="http://www.w3.org/1999/xhtml" href="//b.example/"/>` +
				`<x xl:href="MF:b.example/#4"/></doc>`},
		{`<feed></x></x><link href="//b.example/"/><link href="//b.example/`,
			`<feed></x></x><link href="MF:b.example/"/><link href="//b.example/`},
	} {
		for _, bom := range []string{"", "\ufeff"} {
			got := Document(parse.Input{URL: here, ContentType: "application/xml", Body: []byte(bom + c.in)},
				Rules{Map: toArchive})
			if string(got.Body) != bom+c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.in, got.Body, c.want)
			}
		}
	}
	wide := must.Get(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(
		`<feed><link href="//b.example/"/></feed>`))(t)
	got := Document(parse.Input{URL: here, ContentType: "application/xml", Body: []byte(wide)}, Rules{Map: toArchive})
	if string(got.Body) != wide || got.Charset != "" {
		t.Errorf("a feed in UTF-16 became %q", got.Body)
	}
}

// A document with a long base does not grow without bound: its last references stay as they are.
func TestLongBase(t *testing.T) {
	base := "http://b.example/" + strings.Repeat("&", 7000) + "/"
	page := "<base href='" + base + "'>" + strings.Repeat("<a href=y>", 10_000)
	for _, c := range []struct {
		mime, in string
		least    int
	}{
		{"text/html", page, 4 << 20},
		{"text/html", "<iframe srcdoc=\"" + html.EscapeString(page) + "\"></iframe>" + page[len(base):], 0},
		{"text/html", "<base href='" + base + "'><img srcset='" + strings.Repeat("y 1x,", 10_000) + "'>", 0},
		{"text/html", "<base href='" + base + "'><style>" + strings.Repeat("a{b:url(y)}", 9999) + "</style>", 4 << 20},
		{"application/atom+xml", "<feed xml:base='" + base + "'>" + strings.Repeat("<link href='y'/>", 9999), 4 << 20},
	} {
		got := Document(parse.Input{URL: here, ContentType: c.mime, Body: []byte(c.in)}, Rules{Map: toArchive})
		n, end := len(got.Body), c.in[len(c.in)-50:]
		if n < c.least || n > 9*len(c.in)+4<<20 || !bytes.HasSuffix(got.Body, []byte(end)) {
			t.Errorf("%.20s: %d bytes from %d", c.in, n, len(c.in))
		}
	}
}

// With a base elsewhere, no reference is relative to the document's place.
func TestBase(t *testing.T) {
	got := string(rewriteAs("text/html", `<base href="//b.example/x/"><a href=y>1</a><a href="#z">2</a>`).Body)
	want := `<HEAD><base href="MB:b.example/x/"><a href="MF:b.example/x/y">1</a><a href="MF:b.example/x/#z">2</a>`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestHead(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "<HEAD>"},
		{"text", "<HEAD>text"},
		{"<!doctype html><!-- c --> <p>", "<!doctype html><!-- c --> <HEAD><p>"},
		{"<!doctype html><HTML lang=en><body>", "<!doctype html><HTML lang=en><HEAD><body>"},
		{"<html><head lang=x><meta>", "<html><head lang=x><HEAD><meta>"},
	} {
		if got := string(rewriteAs("text/html", c.in).Body); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

// Bytes of the document's encoding stay, and a query is encoded in it.
func TestCharset(t *testing.T) {
	got := rewriteAs("text/html; charset=iso-8859-1", "<p title=\"caf\xe9\">\xe9</p><a href=\"//b.example/\xe9?\xe9\">")
	want := "<HEAD><p title=\"caf\xe9\">\xe9</p><a href=\"MF:b.example/%C3%A9?%E9\">"
	if string(got.Body) != want || got.Charset != "windows-1252" {
		t.Errorf("got %q in %s, want %q", got.Body, got.Charset, want)
	}
	text := must.Get(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(
		`<meta charset=utf-16><a href="//b.example/é">ü</a>`))(t)
	got = rewriteAs("text/html", text)
	want = `<HEAD><meta charset=utf-16><a href="MF:b.example/%C3%A9">ü</a>`
	if string(got.Body) != want || got.Charset != "utf-8" {
		t.Errorf("got %q in %s, want %q", got.Body, got.Charset, want)
	}
}

func TestCSS(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`a{b:url(x)}`, `a{b:url(x)}`},
		{`@import '//b.example/1' print;@import url(//b.example/2);`,
			`@import "ML:b.example/1" print;@import url("ML:b.example/2");`},
		{`a{b:url( "//b.example/3" ),url(//b.example/4 )}`, `a{b:url( "ML:b.example/3" ),url("ML:b.example/4" )}`},
		{`a{b:url("//b.example/\"<5")}`, `a{b:url("ML:b.example/%22%3C5")}`},
		{`/* url(//b.example/6) */ a{c:"url(//b.example/7)"}`, `/* url(//b.example/6) */ a{c:"url(//b.example/7)"}`},
		{`@namespace s url(//b.example/n);a{b:image-set("//b.example/1" 1x, url(//b.example/2) type("x"))}`,
			`@namespace s url(//b.example/n);a{b:image-set("ML:b.example/1" 1x, url("ML:b.example/2") type("x"))}`},
		{`a{b:url(//b.example/8`, `a{b:url("ML:b.example/8"`},
	} {
		res := rewriteAs("text/css", c.in)
		if got := string(res.Body); got != c.want || res.Kind != parse.CSS {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}

func TestSameFrame(t *testing.T) {
	const page = `<base target=_BLANK><a href=x target=" _top ">1</a><a href=y target=side>2</a><form target=_self>`
	res := Document(parse.Input{URL: here, ContentType: "text/html", Body: []byte(page)},
		Rules{Map: toArchive, SameFrame: true})
	const want = `<base ><a href=x >1</a><a href=y target=side>2</a><form target=_self>`
	if got := string(res.Body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOtherBodies(t *testing.T) {
	for _, mime := range []string{"image/png", "text/javascript", "application/json"} {
		const body = `<a href="http://b.example/">url(//b.example/)`
		if got := rewriteAs(mime, body); string(got.Body) != body || got.Charset != "" {
			t.Errorf("%s: got %q in %q", mime, got.Body, got.Charset)
		}
	}
}

// FuzzHTML checks that a document, whose references are mapped to themselves, keeps all bytes outside
// of tags, and that splitTag finds the attributes that the tokenizer finds.
func FuzzHTML(f *testing.F) {
	for _, s := range []string{`<a href=http://b/ id=x>t`, `<p style="a:url(//b/)">`,
		"<iframe srcdoc='<img src=//b/>'>", "<a\thref = '//b/' =x / y=\"z\">",
		"<svg><style>a{b:url(//c/)}</style></svg>",
		"<base href=//b/><img srcset='//b/ 1x'>", "<meta http-equiv=refresh content='1;url=//b/'>",
		"<noscript><a href=//b/></noscript>", "<a =href href>",
		"<!-->", "<a href='//b/\xe9?\xe9'>", "<link rel=preconnect href=//b/>"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, xml bool) {
		if strings.Contains(text, "\x00") {
			t.Skip("the tokenizer replaces zero bytes in names")
		}
		mime := "text/html"
		if xml {
			mime = "application/xhtml+xml"
		}
		in := parse.Input{URL: here, ContentType: mime + "; charset=utf-8", Body: []byte(text)}
		res := Document(in, Rules{Map: func(Ref) string { return "" }})
		if again := Document(parse.Input{URL: here, ContentType: in.ContentType, Body: res.Body},
			Rules{Map: func(Ref) string { return "" }}); !bytes.Equal(res.Body, again.Body) {
			t.Errorf("%q: rewriting %q again gives %q", text, res.Body, again.Body)
		}
		z := html.NewTokenizer(strings.NewReader(text))
		for {
			kind := z.Next()
			if kind == html.ErrorToken {
				return
			}
			if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
				continue
			}
			raw := bytes.Clone(z.Raw())
			got := splitTag(raw)
			name, more := z.TagName()
			if got.name != string(name) {
				t.Fatalf("%q: name %q, want %q", raw, got.name, name)
			}
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				if len(key) > 0 && got.attr(string(key)) == nil {
					t.Fatalf("%q: %+v lacks %q=%q", raw, got.attrs, key, value)
				}
			}
		}
	})
}
