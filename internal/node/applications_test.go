package node_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// Applications are orders: they hold over restarts. A URL that cannot be fetched is refused, and the others are not.
func TestApplicationsOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newSmallWeb(t).config(t, testdisk.NewMem())
		cfg.Scope.Scope = scope.Page
		cfg.Scope.Exclude = []string{"/7$"}
		runApart(t, cfg, func(a *node.Agent) {
			calls(t, a, `
				SetApplication name:"one" pages:true strategy:"list"
				SetApplication name:"x" exclude:{patterns:"("} -> ! invalid_argument missing closing )
				SetApplication name:"x" scope:"site" -> ! invalid_argument "site" is unknown
				Feed application:"one" urls:{url:"http://b.example/3" priority:15} urls:{url:"ftp://b.example/"} urls:{url:"http://b.example/7"} urls:{url:"http://b.example/3"}
				-> urls:{url:"http://b.example/3" result:"new"} urls:{url:"ftp://b.example/" result:"refused" text:"
				-> urls:{url:"http://b.example/7" result:"refused" text:"
				-> urls:{url:"http://b.example/3" result:"known"}`)
		})
		cfg.Resume = true
		runApart(t, cfg, func(a *node.Agent) {
			calls(t, a, `
				Applications -> pages:true
				-> agents:{
				Status -> applications:{application:"one"
				Give verb:"app" about:"one" off:true
				Status -> - applications
				Applications -> =`)
		})
	})
}

// A program collects the pages of an application with their bodies, also those of duplicates, and those that another
// application has had before. What it has acknowledged does not come again after a restart.
func TestApplicationPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newSmallWeb(t)
		cfg := web.config(t, testdisk.NewMem())
		cfg.Scope.Scope = scope.Page
		urls := []string{"http://a.example/", "http://a.example/4", "http://a.example/6", "http://b.example/6",
			"http://b.example/1"}
		// collect feeds an application, and returns the token of its last page.
		collect := func(a *node.Agent, app string) (token string) {
			t.Helper()
			var feed strings.Builder
			for _, u := range urls {
				fmt.Fprintf(&feed, " urls:{url:%q}", u)
			}
			calls(t, a, `
				SetApplication name:"%s" pages:true strategy:"list"
				Feed application:"%[1]s" %s`, app, feed.String())
			got := map[string]*pb.FetchedPage{}
			for end := time.Now().Add(time.Minute); len(got) < len(urls) && time.Now().Before(end); {
				r := must.Get(a.Operator().Pages(t.Context(), &pb.PagesRequest{Application: app, Limit: 2, Wait: 10,
					Body: true, MaxBodyBytes: 10_000, After: token}))(t)
				for _, p := range r.Pages {
					got[p.Url] = p
				}
				token = r.Token
			}
			for _, u := range urls {
				p, want := got[u], "<!-- "+u+" -->"
				if strings.HasSuffix(u, "/6") {
					want = "the same everywhere"
				}
				if p == nil || p.Status != 200 || !strings.HasPrefix(string(p.Body), want) ||
					p.Truncated != strings.HasSuffix(u, "/4") || p.Mime != "text/html" || p.Time == nil {
					t.Errorf("%s: %s: %.200v", app, u, p)
				}
			}
			return token
		}
		runApart(t, cfg, func(a *node.Agent) {
			token := collect(a, "one")
			calls(t, a, `
				Applications -> unacknowledged:%d
				Acknowledge application:"one" token:"%s"
				Pages application:"one" -> =`, len(urls), token)
		})
		cfg.Resume = true
		before := time.Now()
		runApart(t, cfg, func(a *node.Agent) {
			calls(t, a, `Pages application:"one" -> =`)
			collect(a, "two")
			calls(t, a, `Applications -> shared:%d unacknowledged:%[1]d`, len(urls))
		})
		for _, r := range web.since(before) {
			t.Errorf("a request for %s, which is in the archive", r.URL)
		}
	})
}

// The pages of an application have what they say to robots, in their headers and in their meta elements, also if the
// application only lists URLs, and if the page is in the archive already.
func TestApplicationPagesRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := &smallWeb{Web: textweb.Parse(t, `
http://a.example/
http://b.example/1 meta=noarchive,noindex
http://b.example/2 x-robots-tag=noindex meta=nofollow
http://b.example/3 302 to=/1 x-robots-tag=noarchive
http://b.example/4 404 x-robots-tag=none
http://b.example/5 x-robots-tag=otherbot:_noindex`)}
		want := []string{"", "noindex, noarchive", "noindex, nofollow", "noarchive", "noindex, nofollow", ""}
		runApart(t, web.config(t, testdisk.NewMem()), func(a *node.Agent) {
			calls(t, a, `SetApplication name:"stays" pages:true`)
			for i, strategy := range []string{"list", "follow", "list"} {
				calls(t, a, `
					SetApplication name:"app%d" pages:true strategy:"%s" scope:"page"
					Feed application:"app%[1]d" urls:{url:"http://b.example/1"} urls:{url:"http://b.example/2"} urls:{url:"http://b.example/3"} urls:{url:"http://b.example/4"} urls:{url:"http://b.example/5"}`,
					i, strategy)
				time.Sleep(2 * time.Minute)
				r, err := a.Operator().Pages(t.Context(), &pb.PagesRequest{Application: fmt.Sprint("app", i)})
				if err != nil || len(r.Pages) != 5 {
					t.Fatalf("%s: %v, %v", strategy, r, err)
				}
				for _, p := range r.Pages {
					if n := p.Url[len(p.Url)-1] - '0'; p.Robots != want[n] {
						t.Errorf("application %d (%s): %s says %q to robots, want %q", i, strategy, p.Url, p.Robots,
							want[n])
					}
				}
			}
		})
	})
}

// An application that was removed and is defined again begins anew: it gets the pages of URLs that the earlier one had,
// and none of the pages that the earlier one left.
func TestApplicationAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newSmallWeb(t).config(t, testdisk.NewMem())
		cfg.Scope.Scope = scope.Page
		runApart(t, cfg, func(a *node.Agent) {
			calls(t, a, `SetApplication name:"stays" pages:true`) // the crawl does not end
			for round := range 3 {
				calls(t, a, `
					SetApplication name:"one" pages:true strategy:"list"
					Feed application:"one" urls:{url:"http://b.example/3"} urls:{url:"http://b.example/%d"}
					-> = urls:{url:"http://b.example/3" result:"new"} urls:{url:"http://b.example/%[1]d" result:"new"}`, round+4)
				time.Sleep(30 * time.Second)
				p, err := a.Operator().Pages(t.Context(), &pb.PagesRequest{Application: "one"})
				if err != nil || len(p.Pages) != 2 {
					t.Fatalf("round %d: %v, %v", round, p, err)
				}
				calls(t, a, `Give verb:"app" about:"one" off:true`)
			}
		})
	})
}
