package e2e

import (
	"bufio"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testkit/walk"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// With --requisites the crawl fetches the same pages and everything that they embed, each once, and
// nothing else. The outcome is the same if it was begun without, and has them from its second run on.
func TestRealWebRequisites(t *testing.T) {
	for _, first := range []string{"--requisites", "--no-requisites"}[:testtier.Rounds(1, 2)] {
		t.Run(strings.TrimLeft(first, "-"), func(t *testing.T) { testRequisites(t, first) })
	}
}

func testRequisites(t *testing.T, first string) {
	weighs(t, 4)
	web, tr := knownWeb(t, testweb.Promise{})
	dir := filepath.Join(t.TempDir(), "crawl")
	args := append([]string{"--delay", "0", "--quiet", first, "--sitemaps"}, testweb.DebianSeeds()...)
	light(t, dir, flags(t, web, dir, args...)...)
	if first != "--requisites" {
		light(t, dir, flags(t, web, dir, "--resume", "--requisites", "--quiet")...)
	}
	served(t, web, 0)
	a := audit(t, dir)
	verify(t, dir)
	missed, extra := &most{t: t}, &most{t: t}
	for u, p := range tr.Pages {
		if l, ok := a.final[u]; !ok || l.Code != p.Status {
			missed.errorf("%s: got %d, want %d", u, l.Code, p.Status)
		}
	}
	embeds := a.embeds(t)
	for u, page := range embeds {
		l, ok := a.final[u]
		if host, err := hostOf(u); !ok || err != nil || tr.hosts[host] && l.Code <= 0 {
			missed.errorf("%s, which %s embeds: got %d", u, page, l.Code)
		}
	}
	for u, l := range a.final {
		if _, ok := tr.Pages[u]; !ok && !tr.Denied[u] && !strings.Contains(l.Hops, "E") &&
			!strings.HasSuffix(strings.TrimRight(l.Hops, "R"), "M") { // a guess of a sitemap
			extra.errorf("%s (%d, path %s, via %s)", u, l.Code, l.Hops, l.Via)
		}
	}
	missed.done("missed")
	extra.done("neither page nor requisite")
	if len(embeds) < 200 {
		t.Errorf("only %d requisites on these pages", len(embeds))
	}
	t.Logf("%d URLs, of them %d pages and what they link to, at least %d requisites; missed %d, extra %d",
		len(a.final), len(tr.Pages), len(embeds), missed.n, extra.n)
}

// embeds returns the images, scripts and styles of the archived pages, each with one of these
// pages.
func (a *ledger) embeds(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range a.warcs(t) {
		err := records(name, func(h http.Header, block io.Reader) error {
			if h.Get("WARC-Type") != "response" {
				return nil
			}
			res, err := http.ReadResponse(bufio.NewReader(block), nil)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Content-Type"), "html") {
				return nil
			}
			body, err := identity(res)
			if err != nil {
				return err
			}
			u := h.Get("WARC-Target-URI")
			for _, ref := range embedded(html.NewTokenizer(body)) {
				if e, ok := walk.Resolve(u, ref); ok {
					found[e] = u
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
	return found
}

// embedded returns the references of img, script and style sheets on a page.
func embedded(z *html.Tokenizer) (refs []string) {
	for {
		switch z.Next() {
		case html.ErrorToken:
			return refs
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			attr := map[string]string{}
			for i := len(tok.Attr) - 1; i >= 0; i-- { // the first attribute of its name counts
				attr[tok.Attr[i].Key] = tok.Attr[i].Val
			}
			ref := attr["src"]
			if tok.Data == "link" && strings.EqualFold(attr["rel"], "stylesheet") {
				ref = attr["href"]
			} else if tok.Data != "img" && tok.Data != "script" {
				continue
			}
			if strings.TrimSpace(ref) != "" {
				refs = append(refs, ref)
			}
		}
	}
}
