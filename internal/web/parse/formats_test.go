package parse

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/message"
)

func TestRefreshURL(t *testing.T) {
	tests := []struct{ in, want string }{
		{"0;url=x", "x"},
		{" 5 ; URL = x ", "x "},
		{"5,x", "x"},
		{"5 x", "x"},
		{"5;'x' y", "x"},
		{`5;url="x`, "x"},
		{`5;url='x"y'`, `x"y`},
		{"5.5.5;x", "x"},
		{".5;x", "x"},
		{"5;url", "url"},
		{"5;urlx", "urlx"},
		{"5;ur=x", "ur=x"},
		{"5;url x", "url x"},
		{"5", ""},
		{"5;", ""},
		{"5;url=", ""},
		{"", ""},
		{"x", ""},
		{"url=x", ""},
		{"5x;y", ""},
		{"-1;x", ""},
		{";x", ""},
	}
	for _, tt := range tests {
		if got := string(refreshURL([]byte(tt.in))); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestSrcset(t *testing.T) {
	tests := []struct{ in, want string }{
		{"a", "a"},
		{"a, b 2x,c 100w , d", "a|b|c|d"},
		{"a,b", "a,b"},
		{"a,, b", "a|b"},
		{",, a ,", "a"},
		{"a (x, y), b", "a|b"},
		{"data:,x 1x, b 2x", "data:,x|b"},
		{" ", ""},
		{"a\tb\nc", "a"},
	}
	for _, tt := range tests {
		var got []string
		for ref, rest := nextCandidate([]byte(tt.in)); ref != nil; ref, rest = nextCandidate(rest) {
			got = append(got, string(ref))
		}
		if g := strings.Join(got, "|"); g != tt.want {
			t.Errorf("%q: got %s, want %s", tt.in, g, tt.want)
		}
	}
}

func TestCSS(t *testing.T) {
	tests := []struct{ in, want string }{
		{`a{b:url(1)}`, "1"},
		{`a{b:URL( "1" )}`, "1"},
		{`a{b:url('1'),url( 2 )}`, "1|2"},
		{`@import "1"; @import url(2) screen; @IMPORT '3'`, "!1|!2|!3"},
		{`@import/**/"1"`, "!1"},
		{`@charset "no"; @namespace "no"; a{content:"no"}`, ""},
		{`@import x "no"`, ""},
		{`/* url(no) */ a{b:url(1)/*`, "1"},
		{`a{content:"url(no)"} b{c:url(1)}`, "1"},
		{`url(a\)b)`, "a)b"},
		{`u\72l(1)`, "1"},
		{`\75 rl(1)`, "1"},
		{`url("a\
b")`, "ab"},
		{`url(\41 b)`, "Ab"},
		{`url(a b) url(1)`, "1"},
		{`url(a"b) url(1)`, "1"},
		{`xurl(no) url-prefix(no) src("1") src(no)`, "1"},
		{`a{b:image-set("1" 1x, url(2) 2x, "3" type("no"), url("4") 3x, '5' calc((2*1)*1x))}`, "1|2|3|4|5"},
		{`a{b:-WebKit-image-set( "1"1x);c:"no"} b{c:image-set("2" 1x;d:"no"} e{f:url(3) "no"}`, "1|2|3"},
		{`image-set(x(image-set("1"), "no"), "2") "no"`, "1|2"},
		{`@namespace url(no);@namespace svg url("no"); @NAMESPACE x src("no");a{b:url(1)}`, "1"},
		{`@-moz-document url(no), url-prefix("no") {a{b:url(1)}}`, "1"},
		{`@supports (b:url(no)) or (b:image-set("no" 1x)) {a{b:url(1)}}`, "1"},
		{`@import url(1) layer(x) supports(b:url(no)) screen;@font-face{src:local("no"),url(2)}`, "!1|2"},
		{`a{b:@ url(1);c:@x url(no);d:url(2)}`, "1|2"},
		{`a{b:url(1`, "1"},
		{`"unclosed
url(1)`, "1"},
		{`a{b:url()}`, ""},
		{`#url(no) url(1)`, "1"},
		{`<!-- url(1) -->`, "1"},
	}
	for _, tt := range tests {
		var got []string
		for c := (cssScanner{b: []byte(tt.in)}); c.next(); {
			if len(c.value) == 0 {
				continue
			}
			v := string(c.value)
			if c.imported {
				v = "!" + v
			}
			got = append(got, v)
		}
		if g := strings.Join(got, "|"); g != tt.want {
			t.Errorf("%s: got %s, want %s", tt.in, g, tt.want)
		}
		var judged []string
		for _, r := range cssRefs(tt.in) {
			if r.ref == "" {
				continue
			}
			if r.imported {
				r.ref = "!" + r.ref
			}
			judged = append(judged, r.ref)
		}
		if g := strings.Join(judged, "|"); g != tt.want {
			t.Errorf("%s: the judge of TestLinksAgainstTree gets %s, want %s", tt.in, g, tt.want)
		}
	}
}

func TestRobotsTag(t *testing.T) {
	tests := []struct {
		in   []string
		want Directives
	}{
		{nil, Directives{}},
		{[]string{"noindex"}, Directives{NoIndex: true}},
		{[]string{"NoIndex , NOFOLLOW"}, Directives{NoIndex: true, NoFollow: true}},
		{[]string{"none", "noarchive"}, Directives{NoIndex: true, NoFollow: true, NoArchive: true}},
		{[]string{"orbweaver: nofollow"}, Directives{NoFollow: true}},
		{[]string{"OrbWeaver:nofollow, noindex"}, Directives{NoFollow: true, NoIndex: true}},
		{[]string{"otherbot: noindex, nofollow"}, Directives{}},
		{[]string{"otherbot: noindex", "nofollow"}, Directives{NoFollow: true}},
		{[]string{"otherbot: noindex, orbweaver: nofollow, noarchive"}, Directives{NoFollow: true, NoArchive: true}},
		{[]string{"unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"}, Directives{NoIndex: true}},
		{[]string{"max-snippet:-1, max-image-preview: large, nofollow"}, Directives{NoFollow: true}},
		{[]string{"*: nofollow"}, Directives{NoFollow: true}},
		{[]string{"nofollower, index, all, ,:,"}, Directives{}},
	}
	for _, tt := range tests {
		if got := ParseRobotsTag(tt.in, "orbweaver"); got != tt.want {
			t.Errorf("%q: got %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

func TestHeader(t *testing.T) {
	h := message.Header{
		{Name: "X-Robots-Tag", Value: "noarchive"},
		{Name: "Refresh", Value: "5; url=1"},
	}
	for _, v := range []string{`<2>; rel="canonical", <no>; rel=next, <3>; title="a, <b>"; rel="x preload"; as=style`,
		`<4>;rel=stylesheet`, `<no`, `<no>`, `;;=,<5>; rel=icon`} {
		h = append(h, message.Field{Name: "Link", Value: v})
	}
	in := Input{
		URL: mustURL(t, fuzzBase), ContentType: "text/html",
		Header: h,
		Body:   []byte(`<base href=/b/><a href=6>`),
	}
	var p Page
	Parse(in, Options{Requisites: true}, &p)
	want := "R 1 header:refresh, L 2 header:link, E 3 header:link, E 4 header:link, E 5 header:link, L " +
		"https://a.example/b/6 a@href"
	if got := shortLinks(&p); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := p.Canonical.String(); got != "https://a.example/dir/2" || !p.NoArchive {
		t.Errorf("got canonical %s, %+v", got, p.Directives)
	}
}

func TestKind(t *testing.T) {
	tests := []struct {
		contentType, in string
		want            Kind
	}{
		{"text/html", "", HTML},
		{"TEXT/HTML ; charset=x", "<rss", HTML},
		{"text/html", "<?xml version='1.0'?><!-- --><rss>", Feed},
		{"application/xhtml+xml", "<html>", XHTML},
		{"text/xml", "<?xml version='1.0'?><!DOCTYPE html [<!ENTITY a '<feed>'>]><html>", XHTML},
		{"application/xml", "\ufeff<a:urlset xmlns:a='x'>", Sitemap},
		{"text/xml;charset=utf-16", "\xff\xfe<\x00f\x00e\x00e\x00d\x00>\x00", Feed},
		{"text/xml", "<sitemapindex/>", Sitemap},
		{"text/xml", "<rdf:RDF>", Feed},
		{"text/xml", "<other><feed>", XML},
		{"application/mets+xml", "<!-- --><m:mets/>", XML},
		{"text/xml", "other", Other},
		{"text/xsl", "<x:stylesheet>", XML},
		{"image/svg+xml", "<svg>", SVG},
		{"application/atom+xml", "", Feed},
		{"text/css", "", CSS},
		{"text/plain", "<html>", Other},
		{"image/png", "<html>", Other},
		{"application/octet-stream", "<html>", Other},
		{"", " \n<!doctype HTML>", HTML},
		{"", "<p >", HTML},
		{"", "<pre>", Other},
		{"", "<!-->", HTML},
		{"*/*", "<a href>", HTML},
		{"text/plain, text/html", "", HTML},
		{"html", "<!DOCTYPE html>", HTML},
		{"", "<?xml version='1.0'?><rss>", Feed},
		{"", "text", Other},
		{"", "", Other},
	}
	for _, tt := range tests {
		var p Page
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: tt.contentType, Body: []byte(tt.in)}, Options{}, &p)
		if p.Kind != tt.want {
			t.Errorf("%s, %q: got %s, want %s", tt.contentType, tt.in, p.Kind, tt.want)
		}
	}
}

func TestXHTML(t *testing.T) {
	const in = `<?xml version="1.0"?><!DOCTYPE html PUBLIC "x" "y" [<!ENTITY e "<a href='no'/>">]>
		<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><title>T</title><script src="1"/><style/><base href="/b/"/></head>
		<body><textarea/><a href="2"/><![CDATA[<a href="no">]]><?pi <a href="no"> ?><!-- <a href="no"> --><iframe src="3"/><h:a href="4&amp;5"/>
		<svg><a href="6"/><style><![CDATA[a{b:url(7)}]]></style></svg><a href="8"/></body></html>`
	var p Page
	Parse(Input{URL: mustURL(t, fuzzBase), ContentType: "application/xhtml+xml", Body: []byte(in)},
		Options{Requisites: true}, &p)
	const b = "https://a.example/b/"
	want := "E " + b + "1 script@src, L " + b + "2 a@href, L " + b + "3 iframe@src, L " + b + "4&5 a@href, L " + b +
		"6 svg:a@href, E " + b + "7 style:url, L " + b + "8 a@href"
	if got := shortLinks(&p); got != want || p.Kind != XHTML {
		t.Errorf("got %s %s\nwant %s", p.Kind, got, want)
	}
}

// The style and the title are the whole text of their element. A style sheet may be named before the root element. A
// prefix means nothing.
func TestXMLText(t *testing.T) {
	const xhtml, svg = "application/xhtml+xml", "image/svg+xml"
	tests := []struct{ contentType, in, want, title string }{
		{xhtml, `<html><style type="text/css">/*<![CDATA[*/ a > b { c:url(1) } /*]]>*/</style></html>`, "E 1 style:url", ""},
		{xhtml, `<html><style>a &gt; b { c:url(1?x=1&amp;y=2) }</style></html>`, "E 1?x=1&y=2 style:url", ""},
		{svg, `<svg><style><!-- url(no) -->a{b:url(1)}<?x > url(no) ?>c{d:u<!-- -->rl(2)}</style></svg>`,
			"E 1 style:url, E 2 style:url", ""},
		{svg, `<svg><style><![CDATA[ a{b:url(1#x)} ]]> <![CDATA[ c{d:url(2&amp;)} ]]></style></svg>`,
			"E 1 style:url, E 2&amp; style:url", ""},
		{xhtml + ";charset=iso-8859-1", "<html><title>A<!-- no --> &amp;amp;\n<![CDATA[<B>\xe9]]></title>" +
			"<style>a{b:url(\xe9)}</style></html>", "E %C3%A9 style:url", "A &amp; <B>\u00e9"},
		{svg, `<?xml version="1.0"?><!-- <?xml-stylesheet href="no"?> --><?xml-stylesheet type="text/css" href='1?a&amp;b'?>
			<!DOCTYPE svg [<!-- ]> -->]><?xml-stylesheet href="2" alternate="yes"?><?xml-stylesheets href="no"?>
			<?xml-stylesheet href="#no"?><?xml-stylesheet?><svg><?xml-stylesheet href="no"?><image href="3"/></svg>`,
			"E 1?a&b xml-stylesheet@href, E 2 xml-stylesheet@href, E 3 svg:image@href", ""},
		{xhtml, `<?xml-stylesheet href="1"?><html><base href="/b/"/><a href="2"/></html>`,
			"E 1 xml-stylesheet@href, L https://a.example/b/2 a@href", ""},
		{"text/xml", `<?xml-stylesheet href="1.xsl" type="text/xsl"?><rss xml:base="/b/"><link>2</link></rss>`,
			"E 1.xsl xml-stylesheet@href, L https://a.example/b/2 link", ""},
		{"text/xml", `<?xml-stylesheet href="1.xsl"?><urlset><url><loc>http://b.example/</loc></url></urlset>`,
			"E 1.xsl xml-stylesheet@href, M http://b.example/ url/loc", ""},
		{"text/xml", `<urlset><url><i:image><i:loc>1</i:loc></i:image><loc>2</loc><image><loc>3</loc></image></url></urlset>`,
			"E 1 image/loc, M 2 url/loc, E 3 image/loc", ""},
		{"text/html", `<?xml-stylesheet href="no"?><p>`, "", ""},
		{svg, `<s:svg><s:a xl:href="1"/><s:image ns1:href="no" href="2"/><s:use xl:href="3#a"/></s:svg>`,
			"L 1 svg:a@href, E 2 svg:image@href, E 3 svg:use@href", ""},
		{"text/html", `<svg><a xl:href="no"></svg>`, "", ""},
	}
	for _, tt := range tests {
		var p Page
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: tt.contentType, Body: []byte(tt.in)},
			Options{Requisites: true}, &p)
		if got := shortLinks(&p); got != tt.want || p.Title != tt.title {
			t.Errorf("%s: title %q\ngot  %s\nwant %s", tt.in, p.Title, got, tt.want)
		}
	}
}

// In XML of another kind, namespaces tell which elements are of HTML or SVG. Other elements link by XLink alone.
func TestXML(t *testing.T) {
	const html, svg = `"http://www.w3.org/1999/xhtml"`, `"http://www.w3.org/2000/svg"`
	const xlink = `"http://www.w3.org/1999/xlink"`
	tests := []struct{ name, in, want, title string }{
		{"a namespace of its own", `<?xml-stylesheet href="1"?><doc xmlns="urn:x"><a href="no">no</a>` +
			`<img src="no"/>` +
			`<title>no</title><style>a{b:url(no)}</style><p style="b:url(no)"/><link rel="stylesheet" href="no"/>` +
			`<base href="/no/"/><meta name="robots" content="none"/></doc>`, "E 1 xml-stylesheet@href", ""},
		{"HTML within", `<doc><a href="no"/><body xmlns=` + html + `><title>T</title><a href="1"/>` +
			`<img src="2" srcset="3 2x"/>` +
			`<link rel="stylesheet" href="4"/><script src="5"/><style>a{b:url(6)}</style><p style="b:url(7)"/>` +
			`<x:a xmlns:x="urn:x" href="no"/>` +
			`<x xmlns=""><a href="no"/></x><a href="8" rel="nofollow"/></body><a href="no"/></doc>`,
			"L 1 a@href, E 2 img@src, E 3 img@srcset, E 4 link@href, E 5 script@src, E 6 style:url, E 7 " +
				"@style:url, " +
				"L 8 a@href!", "T"},
		{"prefixes", `<doc xmlns='urn:x' xmlns:H = ` + html + ` xmlns:s=` + svg + `><H:a href="1"/>` +
			`<a href="no"/><s:image href="2"/>` +
			`<s:g><H:a href="3"/><a href="no"/></s:g><s:a xl:href="4"/><title/></doc>`,
			"L 1 a@href, E 2 svg:image@href, L 3 a@href, L 4 svg:a@href", ""},
		{"a prefix of the root", `<h:body xmlns:h=` + html + `><h:a href="1"/><a href="no"/>` +
			`</h:body>`, "L 1 a@href", ""},
		{"XLink", `<m:mets xmlns:m="http://www.loc.gov/METS/" xmlns:xlink=` + xlink + ` xml:base="/b/">` +
			`<m:FLocat LOCTYPE="URL" xlink:href="1"/>` +
			`<m:x xml:base="c/"><m:FLocat xlink:href="2&amp;x"/></m:x><m:FLocat xlink:href="3" href="no"/></m:mets>`,
			"L https://a.example/b/1 xlink:href, L https://a.example/b/c/2&x xlink:href, L " +
				"https://a.example/b/3 xlink:href", ""},
		{"base", `<doc><x xl:href="1"/><h:base xmlns:h=` + html + ` href="/b/"/><x xml:base="c/" xl:href="2"/></doc>`,
			"L https://a.example/b/1 xlink:href, L https://a.example/b/c/2 xlink:href", ""},
		{"two bases", `<doc xml:base="/c/"><h:base xmlns:h=` + html + ` href="/b/"/>` +
			`<h:base xmlns:h=` + html + ` href="/d/"/><x xl:href="2"/></doc>`,
			"L https://a.example/c/2 xlink:href", ""},
		{"XSLT", `<s:stylesheet xmlns:s="http://www.w3.org/1999/XSL/Transform" xmlns=` + html + `>` +
			`<s:import href="1"/><s:include href="2"/>` +
			`<s:template><a href="{no}"/><img src="no"/></s:template></s:stylesheet>`,
			"E 1 xsl:import@href, E 2 xsl:import@href", ""},
		{"robots", `<doc xmlns:h=` + html + `><h:meta name="robots" content="nofollow"/><x xl:href="no"/>` +
			`</doc>`, "", ""},
		{"no end", `<doc xmlns=` + html + `></x></y></doc></doc><a href="1"/><b xmlns=` + html + `>` +
			`<a href="2"`, "", ""},
	}
	for _, tt := range tests {
		var p Page
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: "application/xml", Body: []byte(tt.in)},
			Options{Requisites: true}, &p)
		if got := shortLinks(&p); got != tt.want || p.Kind != XML || p.Title != tt.title {
			t.Errorf("%s: kind %s, title %q\ngot  %s\nwant %s", tt.name, p.Kind, p.Title, got, tt.want)
		}
	}
}

func TestFeeds(t *testing.T) {
	tests := []struct{ name, in, want, title string }{
		{"RSS 2.0",
			`<rss version="2.0"><channel><title>A &amp; B</title><link>1</link><atom:link rel="self" href="2"/><atom:link rel="hub" href="no"/>
			<item><title>no</title><link> 3?a&amp;b </link><guid>https://a.example/dir/4</guid><guid isPermaLink="false">https://a.example/no</guid><guid>no</guid>
			<comments>https://a.example/dir/5</comments><comments>7</comments><slash:comments>https://a.example/no</slash:comments><yt:url>a b</yt:url><x:icon>no</x:icon><enclosure url="6" type="audio/mpeg"/><description>&lt;a href="no"></description></item>
			<item><link><![CDATA[7?a&b]]></link><media:content url="8"/></item><image><url>9</url><link>1</link></image></channel></rss>`,
			"L 1 link, L 2 link@href, L 3?a&b link, L 4 guid, L 5 comments, E 6 enclosure@url, L 7?a&b link, E 8 " +
				"media:content@url, E 9 image", "A & B"},
		{"RSS 0.91",
			`<!DOCTYPE rss SYSTEM "http://my.netscape.com/publish/formats/rss-0.91.dtd"><rss version="0.91"><channel><link>1</link><item><link>2</link></item></channel></rss>`,
			"L 1 link, L 2 link", ""},
		{"RSS 1.0",
			`<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel rdf:about="no"><title>T</title><link>1</link></channel><item rdf:about="2"><link>2</link></item></rdf:RDF>`,
			"L 1 link, L 2 link", "T"},
		{"Atom",
			`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/b/"><title type="text">T</title><link href="1"/><link rel="self" href="2"/><id>no</id><icon>3</icon>
			<entry xml:base="c/"><link rel="alternate" href="4"/><link rel="enclosure" href="5"/><content src="6"/></entry>
			<entry><link href="7"/><link rel="edit" href="no"/></entry></feed>`,
			"L https://a.example/b/1 link@href, L https://a.example/b/2 link@href, E https://a.example/b/3 image, " +
				"L https://a.example/b/c/4 link@href, E https://a.example/b/c/5 enclosure@href, L " +
				"https://a.example/b/c/6 content@src, L https://a.example/b/7 link@href", "T"},
		{"Atom with a prefix", `<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:icon>1</a:icon><b:logo>no</b:logo></a:feed>`,
			"E 1 image", ""},
		{"broken", `<rss><channel><link>1<item><link>2</link></channel><link>3</link><link>4`, "L 2 link, L 3 link",
			""},
		{"comment in a link", `<rss><link>1<!-- no --></link></rss>`, "L 1 link", ""},
		{"billion laughs", `<!DOCTYPE rss [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><rss><link>1&b;</link></rss>`,
			"L 1&b; link", ""},
	}
	for _, tt := range tests {
		var p Page
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: "text/xml", Body: []byte(tt.in)}, Options{Requisites: true},
			&p)
		if got := shortLinks(&p); got != tt.want || p.Kind != Feed || p.Title != tt.title {
			t.Errorf("%s: kind %s, title %q\ngot  %s\nwant %s", tt.name, p.Kind, p.Title, got, tt.want)
		}
	}
}

func TestSitemaps(t *testing.T) {
	const urlset = `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
		<url><loc> https://a.example/1?a&amp;b </loc><lastmod>2020-01-01</lastmod><xhtml:link rel="alternate" hreflang="de" href="https://a.example/2"/>
		<image:image><image:loc>https://a.example/no</image:loc></image:image></url>
		<url><loc><![CDATA[https://a.example/3?a&b]]></loc></url><url><loc>https://a.example/1?a&amp;b</loc></url></urlset>`
	const urls = "M https://a.example/1?a&b url/loc, M https://a.example/2 url/link@href, M https://a.example/3?a&b " +
		"url/loc"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	must.Get(z.Write([]byte(urlset)))(t)
	must.Do(t, z.Close())
	const images = `<urlset><url><loc>http://h.example/1</loc><ns2:image><ns2:loc>http://h.example/no</ns2:loc>
		<ns2:title>t</ns2:title></ns2:image><ns2:image/><xhtml:link rel="alternate" href="http://h.example/2"/></url>
		<url><image><loc>http://h.example/no2</loc></image><loc>http://h.example/3</loc><image><loc>http://h.example/no3</loc></url>
		<url><loc>http://h.example/4</loc></url></urlset>`
	const text = "\ufeffhttps://a.example/1\r\n\n  http://a.example/2 \nnot a URL\n/no\nftp://a.example/\n"
	tests := []struct {
		name, url, contentType, in string
		given                      bool
		want                       string
	}{
		{"urlset", fuzzBase, "application/xml", urlset, false, urls},
		{"served as text", fuzzBase, "text/plain", urlset, true, urls},
		{"served as HTML", fuzzBase, "text/html", urlset, true, urls},
		{"index", fuzzBase, "text/xml",
			"<sitemapindex><sitemap><loc>https://a.example/1.xml.gz</loc></sitemap></sitemapindex>", false,
			"M https://a.example/1.xml.gz sitemap/loc"},
		{"gzip file", "https://a.example/s.xml.gz", "application/x-gzip", packed.String(), false, urls},
		{"gzip file, given", fuzzBase, "application/octet-stream", packed.String(), true, urls},
		{"gzip file of another name", fuzzBase, "application/gzip", packed.String(), false, ""},
		{"gzip file, torn", "https://a.example/s.xml.gz", "application/gzip", packed.String()[:packed.Len()-16], false,
			urls},
		{"images", fuzzBase, "text/xml", images, false, "M http://h.example/1 url/loc, M http://h.example/2 " +
			"url/link@href, M http://h.example/3 url/loc, M http://h.example/4 url/loc"},
		{"text", fuzzBase, "text/plain", text, true, "M https://a.example/1 text/loc, M http://a.example/2 text/loc"},
		{"text that was not given", fuzzBase, "text/plain", text, false, ""},
		{"loc without url", fuzzBase, "text/xml", "<urlset><loc>https://a.example/no</loc></urlset>", false, ""},
		{"prefix", fuzzBase, "text/xml", "<s:urlset><s:url><s:loc>https://a.example/1</s:loc></s:url></s:urlset>",
			false, "M https://a.example/1 url/loc"},
		{"feed as sitemap", fuzzBase, "text/xml", "<rss><link>https://a.example/1</link></rss>", true,
			"L https://a.example/1 link"},
	}
	for _, tt := range tests {
		var p Page
		Parse(Input{URL: mustURL(t, tt.url), ContentType: tt.contentType, Body: []byte(tt.in), Sitemap: tt.given},
			Options{}, &p)
		if got := shortLinks(&p); got != tt.want {
			t.Errorf("%s: kind %s\ngot  %s\nwant %s", tt.name, p.Kind, got, tt.want)
		}
	}
}

func TestSitemapFrom(t *testing.T) {
	const map1 = `<urlset><url><lastmod>2026-11-19</lastmod><loc>http://h.example/old</loc>
		<image><loc>http://h.example/old.png</loc></image><link rel="alternate" href="http://h.example/old-de"/></url>
		<url><loc>http://h.example/1?a&amp;b</loc><lastmod> 2026-11-20 </lastmod>
		<image><loc>http://h.example/1.png</loc></image><link rel="alternate" href="http://h.example/1-de?a&amp;b"/></url>
		<url><loc>http://h.example/2</loc><lastmod>yesterday</lastmod></url>
		<url><loc>http://h.example/3</loc><lastmod/></url>
		<url><loc>http://h.example/old2</loc><lastmod>2026-11-20T01:00:00+02:00</lastmod>
		<url><loc>http://h.example/4</loc><lastmod>2026</lastmod></urlset>`
	var p Page
	parseFrom := func(in string) string {
		Parse(Input{URL: mustURL(t, fuzzBase), ContentType: "text/xml", Body: []byte(in)},
			Options{Requisites: true, SitemapFrom: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}, &p)
		return shortLinks(&p)
	}
	if got, want := parseFrom(map1), "M http://h.example/1?a&b url/loc, E http://h.example/1.png image/loc, "+
		"M http://h.example/1-de?a&b url/link@href, M http://h.example/2 url/loc, M http://h.example/3 url/loc, "+
		"M http://h.example/4 url/loc"; got != want || p.Older != 2 {
		t.Errorf("%d older entries\ngot  %s\nwant %s", p.Older, got, want)
	}
	if got, want := parseFrom("<sitemapindex><sitemap><loc>http://h.example/1</loc><lastmod>2025-01</lastmod></sitemap>"+
		"<sitemap><loc>http://h.example/2</loc></sitemap></sitemapindex>"),
		"M http://h.example/2 sitemap/loc"; got != want || p.Older != 1 {
		t.Errorf("%d older entries\ngot  %s\nwant %s", p.Older, got, want)
	}
}

func TestParseDate(t *testing.T) {
	for text, want := range map[string]string{
		"2026":                      "2026-01-01T00:00:00Z to 2026-12-31T23:59:59.999999999Z",
		"2024-02":                   "2024-02-01T00:00:00Z to 2024-02-29T23:59:59.999999999Z",
		"2026-11-30":                "2026-11-30T00:00:00Z to 2026-11-30T23:59:59.999999999Z",
		"2026-11-30T08:00Z":         "2026-11-30T08:00:00Z to 2026-11-30T08:00:59.999999999Z",
		"2026-11-30T08:00:01+01:00": "2026-11-30T07:00:01Z to 2026-11-30T07:00:01.999999999Z",
		"2026-11-30T08:00:01.5Z":    "2026-11-30T08:00:01.5Z to 2026-11-30T08:00:02.499999999Z",
		"2026-11-31":                "", "2026-1-1": "", "": "", "20261130": "", "now": "", "2026-11-30T08:00:00": "",
	} {
		got := ""
		if first, last, ok := ParseDate(text); ok {
			got = first.UTC().Format(time.RFC3339Nano) + " to " + last.UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestSitemapBounds(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, "<urlset>")
	for i := range 1000 {
		fmt.Fprintf(z, "<url><loc>https://a.example/%d</loc></url>", i)
	}
	must.Do(t, z.Close())
	in := Input{URL: mustURL(t, "https://a.example/s.xml.gz"), Body: b.Bytes(), Sitemap: true}
	var p Page
	Parse(in, Options{MaxLinks: 10}, &p)
	if len(p.Links) != 10 || p.Dropped != 990 || p.Cut {
		t.Errorf("got %d links, %d dropped, cut: %t, want 10 and 990, not cut", len(p.Links), p.Dropped, p.Cut)
	}
	Parse(in, Options{MaxInflated: 1 << 10}, &p)
	if n := len(p.Links); !p.Cut || n == 0 || n > 1024/len("<url><loc>https://a.example/0</loc></url>") {
		t.Errorf("got %d links from the first KiB, want some but no more than fit", n)
	}
}

// A gzip file may be far smaller than the URLs in it.
func TestLargeSitemap(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, "<urlset>")
	for i := range defaultMaxLinks {
		fmt.Fprintf(z, "<url><loc>https://a.example/%d/%s</loc></url>", i, strings.Repeat("x", 200))
	}
	must.Do(t, z.Close())
	var p Page
	Parse(Input{URL: mustURL(t, "https://a.example/s.xml.gz"), Body: b.Bytes(), Sitemap: true}, Options{}, &p)
	if len(p.Links) != defaultMaxLinks || p.Dropped > 0 {
		t.Errorf("%d links, %d dropped", len(p.Links), p.Dropped)
	}
}

// TestEmbedBounds: a page with a hundred thousand images gives some thousand, and all of its links.
func TestEmbedBounds(t *testing.T) {
	var b bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&b, "<img src=/%d>", i)
		if i%10_000 == 0 {
			fmt.Fprintf(&b, "<a href=/page%d>", i)
		}
	}
	in := Input{URL: mustURL(t, "https://a.example/"), Body: b.Bytes(), ContentType: "text/html"}
	var p Page
	for range 2 { // a Page is used again
		Parse(in, Options{Requisites: true}, &p)
		if len(p.Links) != maxEmbeds+10 || p.Dropped != 100_000-maxEmbeds {
			t.Errorf("got %d links, %d dropped, want %d and %d", len(p.Links), p.Dropped, maxEmbeds+10,
				100_000-maxEmbeds)
		}
	}
}
