package rewrite

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// toOne leads each reference to one host.
func toOne(r Ref) string {
	if r.Use == Base {
		return "" // removed
	}
	return "http://m.example/" + r.Fragment
}

// found returns the references that the crawl's parser finds in a document.
func found(in parse.Input) []parse.Link {
	var p parse.Page
	parse.Parse(in, parse.Options{Requisites: true}, &p)
	return p.Links
}

// missed rewrites a document and returns a reference that the crawl's parser finds in the result and
// that does not lead to the one host; "" if there is none.
func missed(mime, text string, except ...string) string {
	in := parse.Input{URL: here, ContentType: mime, Body: []byte(text)}
	in.Body = Document(in, Rules{Map: toOne}).Body
	for _, l := range found(in) {
		if l.URL.Host() != "m.example" && l.URL != here && !slices.Contains(except, l.Tag) {
			return l.Tag + " " + l.URL.String()
		}
	}
	return ""
}

// FuzzComplete checks that the rewriter misses no reference that the crawl would follow or load.
func FuzzComplete(f *testing.F) {
	for _, s := range []string{
		"<a href=//b/1><img src=2 srcset='3 2x, 4'><iframe src=5></iframe><link rel=stylesheet href=6>",
		"<base href=/x/><a href=7><style>@import '8'; a{b:url(9)}</style><p style='x:url(10)'>",
		"<noscript><a href=11></noscript><meta http-equiv=refresh content='0;url=12'>",
		"<svg><a xlink:href=13></a><image href=14 /><style>a{b:url(15)}</style></svg><math><a href=16></a></math>",
		"<template><a href=17></template><textarea><a href=18></textarea><xmp><a href=19></xmp><!-- <a href=20> -->",
		"<![CDATA[<a href=21>]]><script>'<a href=22>'</script><title><a href=23></title><object data=24></object>",
		"<video src=25 poster=26><audio src=27><source src=28 srcset=29><track src=30><embed src=31>" +
			"<input type=image src=32>",
		"<body background=33><table background=34><td background=35><area href=36><frame src=37><image src=38>",
		"<iframe srcdoc='<base href=//b/><a href=43><img src=44><iframe srcdoc=&quot;<a&#32;href=45>&quot;>'>",
		"<tr background=46><tfoot background=47><svg><style>a{b:url(48)}<![CDATA[c{d:url(49)}]]></style></svg>",
		"<svg><title><a href=39></title><p><a href=40></svg><svg><script href=41 /><use href=42#a /></svg>",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "\x00") {
			t.Skip("the tokenizer replaces zero bytes in names")
		}
		if got := missed("text/html; charset=utf-8", text); got != "" {
			t.Errorf("%q: missed %s", text, got)
		}
	})
}

// named matches a reference to an entity.
var named = regexp.MustCompile(`&[^#;\s]+;`)

// FuzzXML checks the same for feeds and other XML, and that nothing but references changes. Rewriting does not find
// references in style rules, lists of images and refreshes, keeps the guids of feeds, and does not know entities. If
// the new references are relative, each reference of the result leads where they do, or where it led before.
func FuzzXML(f *testing.F) {
	for _, s := range []string{
		"<?xml-stylesheet href='1'?><rss><channel><link>2</link><atom:link href='3'/><item><link><![CDATA[4]]>" +
			"</link><comments>5</comments>",
		"<feed xml:base='/x/'><link href='6'/><entry xml:base=y><content src='7'/><icon>8</icon>" +
			"<link rel='enclosure' href='#9'/></entry></feed>",
		"<d xmlns:h='http://www.w3.org/1999/xhtml' xmlns='http://www.w3.org/2000/svg'><h:a href='10'/>" +
			"<image href='11'/><h:base href='//b/'/><b:x xl:href='12'/></d>",
		"<s:stylesheet xmlns:s='http://www.w3.org/1999/XSL/Transform'><s:include href='13'/><x xl:href='14'/>" +
			"</s:stylesheet>",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in := parse.Input{URL: here, ContentType: "application/xml; charset=utf-8", Body: []byte(text)}
		kept := Document(in, Rules{Map: func(r Ref) string { return "" }})
		if kept.Kind != parse.Feed && kept.Kind != parse.XML {
			t.Skip("another kind")
		}
		if string(kept.Body) != text {
			t.Errorf("%q became %q", text, kept.Body)
		}
		known := map[string]bool{"http://a.example/new": true}
		for _, l := range found(in) {
			known[l.URL.String()] = true
		}
		moved := in
		moved.Body = Document(in, Rules{Map: func(Ref) string { return "/new" }}).Body
		for _, l := range found(moved) {
			if !known[l.URL.String()] {
				t.Errorf("%q became %q, which has %s", text, moved.Body, l.URL)
			}
		}
		if named.MatchString(strings.ReplaceAll(text, "&amp;", "")) || strings.Contains(strings.ToLower(text), "base") {
			return // an empty reference leads to its base
		}
		if got := missed(in.ContentType, text, "guid", "style:url", "style:import", "@style:url", "img@srcset",
			"source@srcset", "link@imagesrcset", "meta@refresh"); got != "" {
			t.Errorf("%q: missed %s", text, got)
		}
	})
}

// FuzzCSS checks the same for style rules, and that nothing but references changes.
func FuzzCSS(f *testing.F) {
	for _, s := range []string{`@import "a";@import url(b) x;a{b:url( 'c' )}`,
		`a{b:URL(d\)e)}/* url(f) */`, `url(`, `@import '`,
		`a{b:src("g")}`, `\75rl(h)`, `@\69mport "i"`, "a{b:url(j\n)}", `@import"k`, `url("l`, `url('m\`,
		`a{b:image-set("n" 1x,url(o) type("p"))}@namespace url(q);@supports (a:url(r)){a{b:url(s)}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "\xFE\xFF") || strings.HasPrefix(text, "\xFF\xFE") {
			t.Skip("UTF-16 is converted")
		}
		if got := missed("text/css; charset=utf-8", text); got != "" {
			t.Errorf("%q: missed %s", text, got)
		}
		in := parse.Input{URL: here, ContentType: "text/css; charset=utf-8", Body: []byte(text)}
		kept := Document(in, Rules{Map: func(Ref) string { return "" }})
		if want := strings.TrimPrefix(text, "\xEF\xBB\xBF"); string(kept.Body) != want && kept.Charset == "utf-8" {
			t.Errorf("%q became %q", text, kept.Body)
		}
	})
}
