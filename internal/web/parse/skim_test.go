package parse

import (
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// scanned runs Parse's scan of a page. With all it looks at every tag, as it does after foreign
// content has needed that.
func scanned(t testing.TB, p *Page, body []byte, opt Options, all bool) []string {
	p.reset(Input{URL: mustURL(t, fuzzBase), Body: body}, opt)
	p.work.cs = utf8Charset
	if all {
		p.work.foreign.open = new([256]int32)
	}
	p.html(body, false)
	p.finish()
	return append(lines(p), p.Title, p.Base.String(), p.Canonical.String())
}

func checkSkim(t testing.TB, p *Page, body []byte) {
	t.Helper()
	for _, opt := range []Options{{}, {Requisites: true}} {
		if got, want := scanned(t, p, body, opt, false), scanned(t, p, body, opt, true); !slices.Equal(got, want) {
			t.Fatalf("document %q, requisites %v: got %q, but a look at every tag gives %q",
				body, opt.Requisites, got, want)
		}
	}
}

var skimmed = []string{
	"<aside>", "<area>", "<ba href=no>", "<base href=no>", "<based href=no>", "<LINK REL=next HREF=l1>",
	"<links rel=next href=no>", "<frames src=no>",
	"<FRAME SRC=f1>", "<xmpx>", "</a title='<a href=no>'>", "</a x=\"", "<p class=\"a>b\" id=c><a href=p1>",
	"<td title='", "<p/x=y/>", "<iframe/src=f2>",
	"<svgx>", "<maths>", "</svg x='", "<th><a\nhref=p2\n>", "<textareas>", "<NoEmbed>", "</noembed>",
	"<span =\"<a href=p3>\">", "<div id=>", "</p", "</", "<a",
}

func TestSkimAgainstEveryTag(t *testing.T) {
	r := testseed.Rand(t)
	all := append(slices.Clone(snippets), skimmed...)
	var p Page
	for range 20_000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(all[r.IntN(len(all))])
		}
		if s := b.String(); strings.Count(s, "<base") <= 1 { // before the first base only
			checkSkim(t, &p, []byte(s))
		}
	}
}

func TestNames(t *testing.T) {
	for i, want := range tagNames.ids {
		name := tagNames.words[i]
		for _, n := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:min(1, len(name))])} {
			if len(n) == len(name) && tagOf([]byte(n)) != tag(want) || tagOf([]byte(name+"x")) != tOther {
				t.Errorf("%s: got %d, want %d", n, tagOf([]byte(n)), want)
			}
		}
	}
	for _, name := range strings.Fields("q rp areas styles xmpp aside frames html h7 thread Ĳ") {
		if got := tagOf([]byte(name)); got != tOther {
			t.Errorf("%s: got %d", name, got)
		}
	}
}

func FuzzSkim(f *testing.F) {
	for _, s := range append(slices.Clone(snippets), skimmed...) {
		f.Add([]byte(s))
	}
	f.Add([]byte("<div><svg></p></b><a href=1></div><a href=2>"))
	f.Add(samplePage())
	var p Page
	f.Fuzz(func(t *testing.T, body []byte) {
		if strings.Count(strings.ToLower(string(body)), "<base") <= 1 {
			checkSkim(t, &p, body)
		}
	})
}
