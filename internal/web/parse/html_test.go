package parse

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// parsed parses a text/html page at https://a.example/dir/page?q.
func parsed(t testing.TB, body string, opt Options) *Page {
	t.Helper()
	var p Page
	Parse(Input{URL: mustURL(t, fuzzBase), ContentType: "text/html; charset=utf-8", Body: []byte(body)}, opt, &p)
	return &p
}

// shortLinks renders links for tables: hop, URL without the base's directory, tag, and "!" for
// nofollow.
func shortLinks(p *Page) string {
	var out []string
	for _, l := range p.Links {
		s := string(l.Hop) + " " + strings.TrimPrefix(l.URL.String(), "https://a.example/dir/") + " " + l.Tag
		if l.NoFollow {
			s += "!"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestHTML(t *testing.T) {
	all := Options{Requisites: true}
	tests := []struct {
		name, in string
		opt      Options
		want     string
	}{
		{"anchors and areas", `<a href=1><area href=2><A HREF=3>`, Options{}, "L 1 a@href, L 2 area@href, L 3 a@href"},
		{"no href", `<a name=x><area>`, Options{}, ""},
		{"empty href is the page", `<a href="">`, Options{}, "L page?q a@href"},
		{"fragment is the page", `<a href="#top">`, Options{}, "L page?q a@href"},
		{"fragments are one link", `<a href="1#a"><a href="1#b"><a href=1>`, Options{}, "L 1 a@href"},
		{"spellings are one link", `<a href="./1"><a href="1"><a href="x/../1">`, Options{}, "L 1 a@href"},
		{"other schemes",
			`<a href="mailto:a@b.example"><a href="JavaScript:x()"><a href="data:,x"><a href="java&#115;cript:x">`,
			Options{}, ""},
		{"a colon is no scheme", `<a href="./a:b"><a href="?a:b">`, Options{}, "L a:b a@href, L page?a:b a@href"},
		{"white space", "<a href=' \n1\t2\r3 '>", Options{}, "L 123 a@href"},
		{"a space before a fragment", "<a href='1 #x'>", Options{}, "L 1%20 a@href"},
		{"nofollow", `<a href=1 rel="NoFollow ugc"><a href=2 rel=nofollower><area href=3 rel=" x
			nofollow">`, Options{}, "L 1 a@href!, L 2 a@href, L 3 area@href!"},
		{"one mention without nofollow is enough", `<a href=1 rel=nofollow><a href=1><a href=2><a href=2 rel=nofollow>`,
			Options{}, "L 1 a@href, L 2 a@href"},
		{"also of two spellings", `<a href=1 rel=nofollow><a href=./1><a href=2><a href=./2 rel=nofollow>`, Options{},
			"L 1 a@href, L 2 a@href"},
		{"base wherever it stands", `<a href=1><base target=x><base href=/b/><base href=/c/>`, Options{},
			"L https://a.example/b/1 a@href"},
		{"base that is none", `<base href="data:,x"><base href=/c/><a href=1>`, Options{}, "L 1 a@href"},
		{"base on another host", `<base href="//b.example/x/y"><a href=1><a href=/2><a href="?3">`, Options{},
			"L https://b.example/x/1 a@href, L https://b.example/2 a@href, L https://b.example/x/y?3 a@href"},
		{"frames", `<frameset><frame src=1></frameset><iframe src=2><a href=no></iframe><iframe src="">`, Options{},
			"L 1 frame@src, L 2 iframe@src"},
		{"refresh", `<meta http-equiv=Refresh content="5; URL='1'">`, Options{}, "R 1 meta@refresh"},
		{"refresh with references", `<meta http-equiv=refresh content="0;url=1?a&amp;amp;b">`, Options{},
			"R 1?a&amp;b meta@refresh"},
		{"link keywords", `<link rel=canonical href=1><link rel=next href=2><link rel="alternate nofollow" href=3>
			<link rel=dns-prefetch href=//no.example><link rel=stylesheet href=no><link rel=next>`, Options{},
			"L 1 link@href, L 2 link@href, L 3 link@href!"},
		{"link types of HTML that are hyperlinks", `<link rel=alternate href=1><link rel=author href=2>
			<link rel=help href=3><link rel=license href=4><link rel=Me href=5><link rel=next href=6>
			<link rel=prev href=7><link rel=privacy-policy href=8><link rel=search href=9>
			<link rel=terms-of-service href=10>`, Options{},
			"L 1 link@href, L 2 link@href, L 3 link@href, L 4 link@href, L 5 link@href, " +
				"L 6 link@href, L 7 link@href, L 8 link@href, L 9 link@href, L 10 link@href"},
		{"a hyperlink and a resource in one element",
			`<link rel="next prefetch" href=1><link rel="preload search" href=2>
			<link rel="alternate icon" href=no><link rel="touch-icon" href=no>`, Options{},
			"L 1 link@href, L 2 link@href"},
		{"unknown keywords and none", `<link rel=shortlink href=1><link itemprop=url href=2><link rel="" href=3>`,
			Options{}, "L 1 link@href, L 2 link@href, L 3 link@href"},
		{"interfaces for programs and names", `<link rel="EditURI" type="application/rsd+xml" href=no>
			<link rel=wlwmanifest href=no><link rel=https://api.w.org/ href=no><link rel="alternate webmention" href=no>
			<link rel=schema.DC href=no><link rel=profile href=no><link rel="https://github.com/WP-API/WP-API" href=no>
			<link rel=alternate type="application/json+oembed" href=no><link rel=alternate type=text/xml+oembed href=no>
			<link rel=alternate type="Application/JSON; charset=utf-8" href=no><link type=application/ld+json href=no>
			<link rel=alternate type=application/feed+json href=1><link rel=alternate type=application/rss+xml href=2>
			<link rel="canonical profile" href=3><link rel="me webmention" href=4>
			<link rel=search type=application/opensearchdescription+xml href=no><a rel=profile href=5>
			<link rel="EditURI stylesheet" href=6>`, all,
			"L 1 link@href, L 2 link@href, L 3 link@href, L 4 link@href, L 5 a@href, E 6 link@href"},
		{"link types of HTML that are no pages", `<link rel=dns-prefetch href=1><link rel=expect href=#2>
			<link rel=pingback href=3><link rel=preconnect href=4><link rel=icon href=5><link rel=manifest href=6>
			<link rel=modulepreload href=7><link rel=prefetch href=8><link rel=preload href=9>
			<link rel=compression-dictionary href=10>`, Options{}, ""},
		{"link requisites",
			`<link rel="stylesheet" href=1><link rel="Shortcut ICON" href=2><link rel=preload as=image imagesrcset="3 1x, 4 2x">
			<link rel="alternate stylesheet" href=5><link rel=manifest href=6>`, all,
			"E 1 link@href, E 2 link@href, E 3 link@imagesrcset, E 4 link@imagesrcset, E 5 link@href, E 6 link@href"},
		{"no requisites unless asked",
			`<img src=1 srcset=2><script src=3></script><style>a{b:url(4)}</style><p style="a:url(5)"><video src=6><body background=7><svg><image href=8>`, Options{}, ""},
		{"requisites",
			`<img src=1 srcset="2 1x, 3 2x"><script src=4></script><style>a{b:url(5)}</style><p style="a:url(&quot;6&quot;)">
			<video src=7 poster=8><audio src=9></audio><source src=10 srcset=11><track src=12><embed src=13><object data=14></object>
			<input type=IMAGE src=15><input src=no><body background=16><td background=17><image src=18>
			<thead background=19><tbody background=20><tfoot background=21><tr background=22><th background=23>`, all,
			"E 1 img@src, E 2 img@srcset, E 3 img@srcset, E 4 script@src, E 5 style:url, E 6 @style:url, " +
				"E 7 video@src, E 8 video@poster, " +
				"E 9 audio@src, E 10 source@src, E 11 source@srcset, E 12 track@src, E 13 embed@src, " +
				"E 14 object@data, E 15 input@src, " +
				"E 16 body@background, E 17 td@background, E 18 img@src, E 19 tbody@background, " +
				"E 20 tbody@background, E 21 tbody@background, E 22 tr@background, E 23 td@background"},
		{"srcdoc", `<iframe srcdoc="&lt;img src=&#39;1&#39;&gt;&lt;a href=2?a&amp;amp;b&gt;x&lt;/a&gt;" src=no></iframe>
			<iframe srcdoc="" src=no></iframe><iframe srcdoc="<rss><a href=3>"></iframe>`, all,
			"E 1 img@src, L 2?a&b a@href, L 3 a@href"},
		{"srcdoc has a base and directives of its own",
			`<iframe srcdoc="<base href=/b/><a href=1><title>no</title>"></iframe><a href=2>
			<iframe srcdoc="<meta name=robots content=nofollow><a href=no><frame src=no>"></iframe>
			<base href=/c/><iframe srcdoc="<a href=3><a rel=nofollow href=4>"></iframe>`, Options{},
			"L https://a.example/b/1 a@href, L https://a.example/c/2 a@href, L https://a.example/c/3 a@href, " +
				"L https://a.example/c/4 a@href!"},
		{"srcdoc in srcdoc", `<iframe srcdoc="<a href=1><iframe srcdoc='<a href=2><iframe srcdoc=&amp;quot;<a` +
			`&amp;#32;href=3><iframe&amp;#32;srcdoc=<a&amp;amp;#32;href=no>>&amp;quot;>'>">`, Options{},
			"L 1 a@href, L 2 a@href, L 3 a@href"},
		{"a link and a requisite are two", `<a href=1><img src=1>`, all, "L 1 a@href, E 1 img@src"},
		{"svg",
			`<svg><a href=1 xlink:href=no><a xlink:href=2><image href=3 /><use href="4#x"/><use href="#x"/><feImage href=5 />
			<script href=6 /><style>a{b:url(7)}</style><link rel=next href=no><title><a href=8></a></title></svg><a href=9>`, all,
			"L 1 svg:a@href, L 2 svg:a@href, E 3 svg:image@href, E 4 svg:use@href, E 5 svg:feimage@href, " +
				"E 6 svg:script@href, E 7 style:url, L 8 a@href, L 9 a@href"},
		{"svg style is its whole text",
			`<svg><style> a{b:url(1)}<!-- url(no) --><![CDATA[ c{d:url(2&amp;)} ]]> @media (x<=2){e{f:url(3?x&amp;y)}}</style></svg>`,
			all, "E 1 style:url, E 2&amp; style:url, E 3?x&y style:url"},
		{"svg style in CDATA", `<svg><style> <![CDATA[ @import "1"; ]]></style></svg>`, all, "E 1 style:import"},
		{"CDATA counts in foreign content only", `<svg><![CDATA[<a href=no>]]></svg><![CDATA[<a href=1>]]><a href=2>`,
			Options{}, "L 2 a@href"},
		{"an HTML element ends foreign content", `<svg><p><![CDATA[>]]><a href=1>`, Options{}, "L 1 a@href"},
		{"an end tag ends foreign content if its element is open", `<div><svg></p></b><a href=1></div><a href=2>`,
			Options{}, "L 1 a@href, L 2 a@href"},
		{"and only then", `<a href=1><a href=2></a><svg></a></div></body><a href=3></svg>`, Options{},
			"L 1 a@href, L 2 a@href, L 3 svg:a@href"},
		{"math", `<math><mi><a href=1></a></mi><a href=no></math>`, Options{}, "L 1 a@href"},
		{"foreignObject",
			`<svg><foreignObject><style><a href=no></style><a href=1></a></foreignObject><style><a href=2></style></svg>`, Options{},
			"L 1 a@href, L 2 svg:a@href"},
		{"noscript is read", `<noscript><a href=1><img src=2></noscript>`, all, "L 1 a@href, E 2 img@src"},
		{"template is not",
			`<template><a href=no><base href=/no/><template></template><a href=no></template><a href=1>`, Options{},
			"L 1 a@href"},
		{"unless it is a shadow root", `<template shadowrootmode=open><a href=1></template>`, Options{}, "L 1 a@href"},
		{"raw text",
			`<textarea><a href=no></textarea><xmp><a href=no></xmp><noembed><a href=no></noembed><noframes><a href=no></noframes><title><a href=no></title><style><a href=no></style><a href=1>`, Options{}, "L 1 a@href"},
		{"an end tag of another name", `<title></titles></TITLE x=">"><a href=1>`, Options{}, "L 1 a@href"},
		{"plaintext", `<a href=1><plaintext><a href=no></plaintext><a href=no>`, Options{}, "L 1 a@href"},
		{"script", `<script>"</scripts><a href=no>"</script ><a href=1>`, Options{}, "L 1 a@href"},
		{"script, escaped", `<script><!-- </script><a href=1>`, Options{}, "L 1 a@href"},
		{"script, escaped twice", `<script><!-- <script> </script> <a href=no> --> <a href=no> </script><a href=1>`,
			Options{}, "L 1 a@href"},
		{"script, escaped at once ended", `<script><!--><script></script><a href=1>`, Options{}, "L 1 a@href"},
		{"script, unclosed", `<a href=1><script><a href=no>`, Options{}, "L 1 a@href"},
		{"comments",
			`<!-- <a href=no> --><!--><a href=1><!---><a href=2><!-- --!><a href=3><!----!><a href=4><!-- -- > --><a href=5><!--- --><a href=6><!---!> <a href=no> -->`, Options{},
			"L 1 a@href, L 2 a@href, L 3 a@href, L 4 a@href, L 5 a@href, L 6 a@href"},
		{"bogus comments",
			`<!x <a href=no><?php <a href=no></ <a href=no></><a href=1><!DOCTYPE "<a href=no>"<a href=2>`, Options{},
			"L 1 a@href, L 2 a@href"},
		{"attributes",
			`<a href=1 href=no><a/href=2><a x='>' href="3"y=z><a href = "4" ><a ="" =href=no href=5><a href=6/><a href='7'href=no><a HrEf=8>`, Options{},
			"L 1 a@href, L 2 a@href, L 3 a@href, L 4 a@href, L 5 a@href, L 6/ a@href, L 7 a@href, L 8 a@href"},
		{"text is not a tag", `1 < 2 <3 <a.b <-><a href=1>`, Options{}, "L 1 a@href"},
		{"cut off", `<a href=1><a href="2`, Options{}, "L 1 a@href"},
		{"cut off in a name", `<a href=1><a href`, Options{}, "L 1 a@href"},
		{"references", `<a href="?a=1&amp;b=2&copy=3&copy;4&#x20AC;&#128;&notit;&not;&unknown;&&#;&#x;">`, Options{},
			"L page?a=1&b=2&copy=3%C2%A94%E2%82%AC%E2%82%AC&notit;%C2%AC&unknown;&& a@href"},
		{"references at the edges", `<a href="&#32;1&#32;"><a href="2&#35;x"><a href="&Tab;3">`, Options{},
			"L 1 a@href, L 2 a@href, L 3 a@href"},
		{"NUL", "<a href=\"1\x00\"><a hr\x00ef=no>", Options{}, "L 1%EF%BF%BD a@href"},
		{"bytes that are no UTF-8", "<a href=\"\xff\xe2\x82x\">", Options{}, "L %EF%BF%BD%EF%BF%BDx a@href"},
		{"bad URLs are skipped", `<a href="http://["><a href="https://a b/"><a href=1>`, Options{}, "L 1 a@href"},
	}
	for _, tt := range tests {
		if got := shortLinks(parsed(t, tt.in, tt.opt)); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestPage(t *testing.T) {
	type facts struct {
		Base, Canonical, Title, Charset string
		Kind                            Kind
		Directives                      Directives
		Links, Bad, Dropped, Withheld   int
	}
	tests := []struct {
		name, in string
		opt      Options
		want     facts
	}{
		{"title", "<title> A &amp; B\n\t&eacute; </title><title>no</title>", Options{}, facts{Title: "A & B é"}},
		{"title of an svg", "<svg><title>no</title></svg><title>T</title>", Options{}, facts{Title: "T"}},
		{"long title", "<title>" + strings.Repeat("é", 1000) + "</title>", Options{},
			facts{Title: strings.Repeat("é", maxTitle/2)}},
		{"canonical", `<link rel=canonical href="/c#x"><link rel=canonical href=/d>`, Options{},
			facts{Canonical: "https://a.example/c", Links: 2}},
		{"canonical that is also a link", `<a href=/c></a><link rel=canonical href=/c>`, Options{},
			facts{Canonical: "https://a.example/c", Links: 1}},
		{"base", `<base href=/b/>`, Options{}, facts{Base: "https://a.example/b/"}},
		{"bad links", `<a href="http://["><a href="mailto:x"><a href=1>`, Options{}, facts{Bad: 1, Links: 1}},
		{"long links", `<a href="` + strings.Repeat("x", 100) + `"><a href=1>`, Options{MaxURL: 99},
			facts{Bad: 1, Links: 1}},
		{"too many links", `<a href=1><a href=2><a href=3><a href=4>`, Options{MaxLinks: 2},
			facts{Links: 2, Dropped: 2}},
		{"noindex", `<meta name=robots content="NOINDEX, noarchive">`, Options{},
			facts{Directives: Directives{NoIndex: true, NoArchive: true}}},
		{"nofollow keeps requisites",
			`<a href=1><meta name=ROBOTS content="all,none"><a href=2><link rel=canonical href=/c><img src=3><meta http-equiv=refresh content="0;url=4">`, Options{Requisites: true},
			facts{Canonical: "https://a.example/c", Directives: Directives{NoIndex: true, NoFollow: true},
				Links: 2, Withheld: 3}},
		{"our own name", `<meta name=Orbweaver content=nofollow><a href=1>`, Options{Agent: "orbweaver"},
			facts{Directives: Directives{NoFollow: true}, Withheld: 1}},
		{"another name", `<meta name=otherbot content=nofollow><a href=1>`,
			Options{Agent: "orbweaver"}, facts{Links: 1}},
		{"in a template", `<template><meta name=robots content=none></template><a href=1>`, Options{}, facts{Links: 1}},
	}
	for _, tt := range tests {
		p := parsed(t, tt.in, tt.opt)
		if tt.want.Base == "" {
			tt.want.Base = fuzzBase
		}
		tt.want.Charset, tt.want.Kind = "utf-8", HTML
		got := facts{p.Base.String(), p.Canonical.String(), p.Title, p.Charset, p.Kind, p.Directives, len(p.Links),
			p.BadLinks, p.Dropped, p.Withheld}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

// TestTreeBuilder shows where the scanner finds links that the tree builder of x/net/html drops;
// see Page.html.
func TestTreeBuilder(t *testing.T) {
	tests := []struct{ name, in, got, tree string }{
		{"in a frameset document", `<frameset></frameset><a href=1>`, "1", ""},
		{"a frame outside of a frameset", `<p><frame src=1>`, "1", ""},
		{"a cell outside of a table", `<td background=1>`, "1", ""},
		{"an end of noscript by implication, in foreign content", `<noscript><svg></noscript><area href=1>`, "1", ""},
		{"template in foreign content", `<svg><desc><template></template><area href=1>`, "1", ""},
		{"a less-than sign in an escaped script", `<script><!-- < </script><a href=1>`, "1", "1"},
		{"a script escaped twice after a less-than sign", `<script><!-- <<script></script><a href=1>`, "", "1"},
	}
	render := func(lines []string) string {
		for i, l := range lines {
			lines[i] = strings.TrimPrefix(strings.Fields(l)[1], "https://a.example/dir/")
		}
		return strings.Join(lines, " ")
	}
	for _, tt := range tests {
		o := must.Get(walk(mustURL(t, fuzzBase), "text/html; charset=utf-8", []byte(tt.in), true))(t)
		if tree := render(o.links); tree != tt.tree {
			t.Errorf("%s: the tree has %q, want %q", tt.name, tree, tt.tree)
		}
		if got := render(lines(parsed(t, tt.in, Options{Requisites: true}))); got != tt.got {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.got)
		}
	}
}

// TestReuse checks that nothing of one response appears in the next.
func TestReuse(t *testing.T) {
	docs := []string{
		`<base href=/b/><title>T</title><link rel=canonical href=1><meta name=robots content=none><svg><foreignObject><p>`,
		`<![CDATA[<a href=1>]]><a href=2>`,
		string(samplePage()),
		`<a href=x>`,
		``,
	}
	var p Page
	for _, d := range append(docs, docs...) {
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: "text/html; charset=utf-8", Body: []byte(d)}, Options{}, &p)
		fresh := parsed(t, d, Options{})
		if got, want := shortLinks(&p), shortLinks(fresh); got != want || p.Base != fresh.Base ||
			p.Title != fresh.Title ||
			p.Canonical != fresh.Canonical || p.Directives != fresh.Directives {
			t.Errorf("%.40q: got %s %+v, want %s %+v", d, got, p.Directives, want, fresh.Directives)
		}
	}
}

// TestHostileHTML checks that size alone does no harm. Every input has a megabyte or more. Scanning
// is linear, so all of them take only a moment.
func TestHostileHTML(t *testing.T) {
	const n = 100_000
	tests := []struct{ name, in, want string }{
		{"nested tags", strings.Repeat("<div>", n) + "<a href=1>", "L 1 a@href"},
		{"nested svg", strings.Repeat("<svg>", n) + strings.Repeat("</svg>", n) + "<a href=1>", "L 1 a@href"},
		{"nested templates", strings.Repeat("<template>", n) + "<a href=no>" + strings.Repeat("</template>", n) +
			"<a href=1>", "L 1 a@href"},
		{"open comments", strings.Repeat("<!--", n) + "--><a href=1>", "L 1 a@href"},
		{"open scripts", strings.Repeat("<script><!--<script>", n) + "<a href=no>", ""},
		{"open titles", strings.Repeat("<title>", n) + "<a href=no>", ""},
		{"svg styles", "<svg>" + strings.Repeat("<style>url(", n) + "<![CDATA[", ""},
		{"open quotes", strings.Repeat("<a href='", n) + "<a href=no>", "L %3Ca%20href= a@href"},
		{"attributes", "<a " + strings.Repeat("x=y ", n) + "href=1>", "L 1 a@href"},
		{"ampersands", "<a href='" + strings.Repeat("&", n) + "'><a href=1>", "L 1 a@href"},
		{"one link many times", strings.Repeat("<a href=1>", n), "L 1 a@href"},
		{"less-than signs", strings.Repeat("<", 10*n) + "<a href=1>", "L 1 a@href"},
		{"open CDATA", "<svg>" + strings.Repeat("<![CDATA[", n), ""},
		{"commas", "<img srcset='" + strings.Repeat(",", n) + " 1'>", "E 1 img@srcset"},
	}
	for _, tt := range tests {
		if got := shortLinks(parsed(t, tt.in, Options{Requisites: true})); got != tt.want {
			t.Errorf("%s: got %.200s, want %s", tt.name, got, tt.want)
		}
	}
}
