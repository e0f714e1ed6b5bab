package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// Applications are orders: they hold over restarts. A URL that cannot be fetched is refused, and the others are not.
func TestApplicationsOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newSmallWeb()
		cfg := web.config(t, testdisk.NewMem())
		cfg.Scope.Scope = scope.Page
		cfg.Scope.Exclude = []string{"/7$"}
		ctx := t.Context()
		define := func(a *Agent, q *pb.SetApplicationRequest) error {
			_, err := a.operator.SetApplication(ctx, q)
			return err
		}
		runApart(t, cfg, func(a *Agent) {
			if err := define(a, &pb.SetApplicationRequest{Name: "one", Pages: proto.Bool(true),
				Strategy: proto.String("list")}); err != nil {
				t.Fatal(err)
			}
			for text, q := range map[string]*pb.SetApplicationRequest{
				`missing closing )`: {Name: "x", Exclude: &pb.Patterns{Patterns: []string{"("}}},
				`"site" is unknown`: {Name: "x", Scope: proto.String("site")},
			} {
				if err := define(a, q); err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%v: %v, want %s", q, err, text)
				}
			}
			r, err := a.operator.Feed(ctx, &pb.FeedRequest{Application: "one", Urls: []*pb.FeedURL{
				{Url: "http://b.example/3", Priority: 15}, {Url: "ftp://b.example/"}, {Url: "http://b.example/7"},
				{Url: "http://b.example/3"}}})
			var got []string
			for _, s := range r.GetUrls() {
				got = append(got, s.Result)
			}
			if want := []string{"new", "refused", "refused", "known"}; err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %v, want %v: %v", got, err, want, r)
			}
		})
		cfg.Resume = true
		runApart(t, cfg, func(a *Agent) {
			r, err := a.operator.Applications(ctx, &pb.ApplicationsRequest{})
			if err != nil || len(r.Applications) != 1 || !r.Applications[0].Pages ||
				len(r.Applications[0].Agents) != 1 {
				t.Errorf("after a restart: %v, %v", r, err)
			}
			if s := (operated{a}).Status(); len(s.Applications) != 1 || s.Applications[0].Application != "one" {
				t.Errorf("the status has %v", s.Applications)
			}
			if _, err := a.operator.RemoveApplication(ctx, &pb.RemoveApplicationRequest{Name: "one"}); err != nil {
				t.Error(err)
			}
			if states := a.crawler.ApplicationStates(); len(states) != 0 {
				t.Errorf("removed, and there: %v", states)
			}
		})
	})
}

// A program collects the pages of an application with their bodies, also those of duplicates, and those that another
// application has had before. What it has acknowledged does not come again after a restart.
func TestApplicationPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newSmallWeb()
		cfg := web.config(t, testdisk.NewMem())
		cfg.Scope.Scope = scope.Page
		ctx := t.Context()
		urls := []string{"http://a.example/", "http://a.example/4", "http://a.example/6", "http://b.example/6",
			"http://b.example/1"}
		collect := func(a *Agent, app string, n int) (token string) {
			t.Helper()
			got := map[string]*pb.FetchedPage{}
			for end := time.Now().Add(time.Minute); len(got) < n && time.Now().Before(end); {
				r, err := a.operator.Pages(ctx, &pb.PagesRequest{Application: app, Limit: 2, Wait: 10, Body: true,
					MaxBodyBytes: 10_000, After: token})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range r.Pages {
					got[p.Url] = p
				}
				token = r.Token
			}
			for _, u := range urls[:n] {
				p := got[u]
				want := "<!-- " + u + " -->"
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
		feed := func(a *Agent, app string) {
			t.Helper()
			if _, err := a.operator.SetApplication(ctx, &pb.SetApplicationRequest{Name: app, Pages: proto.Bool(true),
				Strategy: proto.String("list")}); err != nil {
				t.Fatal(err)
			}
			q := &pb.FeedRequest{Application: app}
			for _, u := range urls {
				q.Urls = append(q.Urls, &pb.FeedURL{Url: u})
			}
			if _, err := a.operator.Feed(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
		pages := func(a *Agent, app string) int {
			t.Helper()
			r, err := a.operator.Pages(ctx, &pb.PagesRequest{Application: app})
			if err != nil {
				t.Fatal(err)
			}
			return len(r.Pages)
		}
		runApart(t, cfg, func(a *Agent) {
			feed(a, "one")
			token := collect(a, "one", len(urls))
			if n := pages(a, "one"); n != len(urls) {
				t.Errorf("%d pages are not acknowledged, want %d", n, len(urls))
			}
			if _, err := a.operator.Acknowledge(ctx, &pb.AcknowledgeRequest{Application: "one",
				Token: token}); err != nil {
				t.Fatal(err)
			}
		})
		cfg.Resume = true
		before := len(web.requests())
		runApart(t, cfg, func(a *Agent) {
			if n := pages(a, "one"); n != 0 {
				t.Errorf("%d pages came again after their acknowledgement", n)
			}
			feed(a, "two")
			collect(a, "two", len(urls))
			r, err := a.operator.Applications(ctx, &pb.ApplicationsRequest{})
			if err != nil || len(r.Applications) != 2 || r.Applications[1].State.Unacknowledged != int64(len(urls)) ||
				r.Applications[1].State.Shared != int64(len(urls)) {
				t.Errorf("the applications are %v, %v", r, err)
			}
		})
		for _, r := range web.requests()[before:] {
			t.Errorf("a request to %s for a page that is in the archive", r.host)
		}
	})
}

// An application that was removed and is defined again begins anew: it gets the pages of URLs that the earlier one had,
// and none of the pages that the earlier one left.
func TestApplicationAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newSmallWeb()
		cfg := web.config(t, testdisk.NewMem())
		cfg.Scope.Scope = scope.Page
		ctx := t.Context()
		runApart(t, cfg, func(a *Agent) {
			if _, err := a.operator.SetApplication(ctx, &pb.SetApplicationRequest{Name: "stays",
				Pages: proto.Bool(true)}); err != nil { // the crawl does not end
				t.Fatal(err)
			}
			for round := range 3 {
				if _, err := a.operator.SetApplication(ctx, &pb.SetApplicationRequest{Name: "one",
					Pages: proto.Bool(true), Strategy: proto.String("list")}); err != nil {
					t.Fatal(err)
				}
				q := &pb.FeedRequest{Application: "one", Urls: []*pb.FeedURL{{Url: "http://b.example/3"},
					{Url: fmt.Sprintf("http://b.example/%d", round+4)}}}
				r, err := a.operator.Feed(ctx, q)
				if err != nil || r.Urls[0].Result != "new" || r.Urls[1].Result != "new" {
					t.Fatalf("round %d: %v, %v", round, r, err)
				}
				time.Sleep(30 * time.Second)
				p, err := a.operator.Pages(ctx, &pb.PagesRequest{Application: "one"})
				if err != nil || len(p.Pages) != 2 {
					t.Fatalf("round %d: %v, %v", round, p, err)
				}
				_, err = a.operator.RemoveApplication(ctx, &pb.RemoveApplicationRequest{Name: "one"})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}
