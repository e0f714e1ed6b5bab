package builtin

import (
	"fmt"
	"hash/fnv"
	"html"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// englishMenu has the entries of a site's menu.
var englishMenu = strings.Split("Home,About us,News and events,Contact,Search this site,Products,Services,Site map,"+
	"Log in,Register,My account,Help,Frequently asked questions,Privacy policy,Terms of use,Departments,Students,"+
	"Research groups,Admissions,Library,Directory,Calendar,Jobs,Alumni,Faculty and staff,Support,Download,Gallery,"+
	"Press releases,Archive,Links,Print this page,Change language,Share,Subscribe to our newsletter,Undergraduate,"+
	"Graduate studies,Publications,Projects,People,Courses,Imprint,Partners,Online services,Opening hours,Maps", ",")

// The forms of menus. Each is written for an entry.
var menuForms = map[string]string{
	"none":     "",
	"elements": "<li><a href=/x>%s</a></li>\n",
	"line":     "<a href=/x>%s</a> |\n",
	"table":    "<tr><td class=menu><font size=2> <A HREF='x.html'>%s</A> </font></td>\n",
	"labels":   "<div class=entry onclick='go()'>\n\t%s\n</div>\n",
}

// pageWith returns a page with paragraphs below a menu and above a footer.
func pageWith(form string, menu, sentences []string) []byte {
	var b strings.Builder
	b.WriteString("<!doctype html><title>Welcome</title><body><div id=menu>")
	entries := func(list []string) {
		for _, entry := range list {
			if menuForms[form] != "" {
				fmt.Fprintf(&b, menuForms[form], html.EscapeString(entry))
			}
		}
	}
	entries(menu)
	b.WriteString("</div>\n<p>")
	for i, sentence := range sentences {
		at := strings.LastIndexByte(sentence, ' ') + 1
		if at == 0 { // the language puts no spaces between words
			runes := []rune(sentence)
			at = len(string(runes[:len(runes)-2]))
		}
		fmt.Fprintf(&b, "%s <a href=/%d>%s</a>", html.EscapeString(sentence[:at]), i, html.EscapeString(sentence[at:]))
		if i%2 != 0 {
			b.WriteString("\n<p>")
		}
	}
	b.WriteString("<div id=foot>")
	entries(menu[:len(menu)/2])
	return []byte(b.String())
}

// The language of a page is that of its main text, whatever language its menus are in.
func TestLanguagesBelowMenus(t *testing.T) {
	const sentencesOfPage = 6
	sentences, menus := map[string][]string{}, map[string][]string{}
	for _, r := range read(t, "languages.jsonl.gz") {
		h := fnv.New32a()
		h.Write([]byte(r.Text))
		switch {
		case r.Kind == "sentences" && h.Sum32()%2 != 0: // the model was not trained on it
			sentences[r.Lang] = append(sentences[r.Lang], r.Text)
		case r.Kind == "word-pairs" || r.Kind == "single-words":
			menus[r.Lang] = append(menus[r.Lang], r.Text)
		}
	}
	c := must.Get(classify.New(Languages(), nil))(t)
	var p parse.Page
	var s classify.Scratch
	told := func(form string, menu []string, language string, text []string) (right classify.Share) {
		for i := 0; i+sentencesOfPage <= len(text); i += sentencesOfPage {
			body := pageWith(form, menu, text[i:i+sentencesOfPage])
			parse.Parse(parse.Input{URL: weburl.MustParse("http://a.example/"), Body: body,
				ContentType: "text/html; charset=utf-8"}, parse.Options{}, &p)
			if right.Of++; c.Classify(p.AppendProse(nil, body), p.MainText(), &s).Category == language {
				right.Right++
			}
		}
		return right
	}
	for form := range menuForms {
		var others, english classify.Share
		for language, text := range sentences {
			if language == "en" {
				continue
			}
			o := told(form, englishMenu, language, text)
			e := told(form, menus[language], "en", sentences["en"])
			others = classify.Share{Right: others.Right + o.Right, Of: others.Of + o.Of}
			english = classify.Share{Right: english.Right + e.Right, Of: english.Of + e.Of}
		}
		t.Logf("%-8s English menus %.4f of %d; English below other menus %.4f of %d", form, others.Accuracy(),
			others.Of, english.Accuracy(), english.Of)
		if others.Of < 1500 || others.Accuracy() < 0.975 || english.Of < 1500 || english.Accuracy() < 0.98 {
			t.Errorf("%s: English menus %+v, English below other menus %+v", form, others, english)
		}
	}
}

// Articles in English are told to be English, even if they begin with names.
func TestEnglishArticles(t *testing.T) {
	c := must.Get(classify.New(Languages(), nil))(t)
	var p parse.Page
	var s classify.Scratch
	var right classify.Share
	for _, r := range read(t, "odp.jsonl.gz") {
		if r.Source != "wikispeedia" {
			continue
		}
		body := []byte("<title>An article</title><p>" + strings.ReplaceAll(html.EscapeString(r.Text), "\n", "<p>"))
		parse.Parse(parse.Input{URL: weburl.MustParse("http://a.example/"), Body: body,
			ContentType: "text/html; charset=utf-8"}, parse.Options{}, &p)
		if right.Of++; c.Classify(p.AppendProse(nil, body), p.MainText(), &s).Category == "en" {
			right.Right++
		}
	}
	if t.Logf("%+v", right); right.Of < 2500 || right.Accuracy() < 0.998 {
		t.Errorf("%+v", right)
	}
}
