package gen

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	kgzip "github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// smallWild returns the Spec of a small web where a few hundred pages show every fault. It has few blocks, because to
// make them takes most of a test's time.
func smallWild(seed uint64) Spec {
	s := Wild(seed, 2000)
	s.Topics, s.Languages, s.PageBytes = 3, 2, 8000
	s.PagesMean, s.Mirrors, s.Duplicates, s.Traps = 20, 0.15, 0.1, 0.3
	return s
}

// fetched returns a page after all retries, and its Reply.
func fetched(t testing.TB, w *Web, host, page int64, gz bool) ([]byte, testweb.Reply) {
	t.Helper()
	out, r := w.Answer(nil, testweb.Query{Host: host, Target: w.Target(host, page), Gzip: gz,
		Secure: w.secure(host), Answered: 3})
	return out[r.HeadLen:], r
}

// TestGzipIsIdentity: a page in gzip is the same page, in any web and for any decoder.
func TestGzipIsIdentity(t *testing.T) {
	webs := []*Web{
		newWeb(t, Spec{Hosts: 5000, Topics: 2, Languages: 9}), newWeb(t, smallWild(2)),
		newWeb(t, Spec{Hosts: 10, Links: 1, PageBytes: 1}),
		newWeb(t, Spec{Hosts: 100, Links: 1000, Topics: 1, Languages: 1}),
		newWeb(t, Spec{Hosts: 1 << 40, PageBytes: 100_000, Topics: 1, Languages: 2}),
		newWeb(t, Spec{Graph: testGraph(), PageBytes: 1}),
		newWeb(t, Spec{Hosts: 200, Topics: 1, Languages: 2, Duplicates: 0.4, Mirrors: 0.2, Edits: 0.05}),
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.SampledFrom(webs).Draw(rt, "web")
		h := rapid.Int64Range(0, w.Hosts()-1).Draw(rt, "host")
		if w.death(h) != alive {
			rt.Skip()
		}
		p := rapid.Int64Range(0, w.Pages(h)-1).Draw(rt, "page")
		want, r := fetched(t, w, h, p, false)
		z, rz := fetched(t, w, h, p, true)
		if r.Status != rz.Status || r.Page != rz.Page {
			rt.Fatalf("%+v without gzip, %+v with gzip", r, rz)
		}
		if r.Status != 200 {
			return
		}
		zr, err := gzip.NewReader(bytes.NewReader(z))
		if err != nil {
			rt.Fatal(err)
		}
		if got, err := io.ReadAll(zr); err != nil || !bytes.Equal(got, want) {
			rt.Fatalf("compress/gzip: %v, got %d bytes, want %d", err, len(got), len(want))
		}
		kr, err := kgzip.NewReader(bytes.NewReader(z))
		if err != nil {
			rt.Fatal(err)
		}
		if got, err := io.ReadAll(kr); err != nil || !bytes.Equal(got, want) {
			rt.Fatalf("klauspost: %v, got %d bytes, want %d", err, len(got), len(want))
		}
	})
}

// TestLinksAreOnThePage: x/net/html finds the links that Links returns, in the same order.
func TestLinksAreOnThePage(t *testing.T) {
	graph := Spec{Graph: testGraph(), PageBytes: 1, DeadLinks: 0.1, Redirects: 0.1}
	for name, spec := range map[string]Spec{"plain": {Hosts: 500, PageBytes: 1}, "wild": smallWild(4), "graph": graph,
		"one page": {Hosts: 1, PagesMean: 1},
		"dead":     {Hosts: 60, Links: 20, PageBytes: 1, DeadHosts: 0.5, Topics: 1, Languages: 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, spec)
			rng := rand.New(rand.NewPCG(3, 4))
			kinds := map[Kind]int{}
			for range 300 {
				h := rng.Int64N(w.Hosts())
				p := rng.Int64N(w.Pages(h))
				if !w.answers(h, p) {
					continue
				}
				body, r := fetched(t, w, h, p, false)
				if r.Status != 200 || r.Page != p {
					t.Fatalf("%s: %+v", w.URL(h, p), r)
				}
				base, err := url.Parse(w.URL(h, p))
				must.Do(t, err)
				refs, found := w.Links(h, p, nil), hrefs(t, body)
				if len(refs) != len(found) {
					t.Fatalf("%s: %d links on the page, want %d", base, len(found), len(refs))
				}
				for i, ref := range refs {
					kinds[ref.Kind]++
					u, err := base.Parse(found[i])
					must.Do(t, err)
					if err := leadsTo(w, u, h, ref); err != nil {
						t.Fatalf("%s: link %d, %s: %v", base, i, found[i], err)
					}
				}
			}
			t.Logf("kinds %v", kinds)
			if name == "wild" && len(kinds) != 5 {
				t.Errorf("kinds of links: %v, want all five", kinds)
			}
		})
	}
}

// leadsTo checks that a URL on a page of a host leads to the target of a Ref, by the URLs of Steps.
func leadsTo(w *Web, u *url.URL, host int64, ref Ref) error {
	urls := w.Steps(host, ref)
	for steps := 0; ; steps++ {
		if steps < len(urls) && u.String() != urls[steps] {
			return fmt.Errorf("step %d is %s, want %s", steps, u, urls[steps])
		}
		if ref.Page >= 0 && u.String() == w.URL(ref.Host, ref.Page) {
			if want := len(urls); steps != want {
				return fmt.Errorf("%d redirects, want %d", steps, want)
			}
			return nil
		}
		h, ok := w.Find(u.Host)
		if !ok {
			return fmt.Errorf("there is no host %s", u.Host)
		}
		out, r := w.Answer(nil, testweb.Query{Host: h, Target: u.RequestURI(), Secure: u.Scheme == "https"})
		switch {
		case r.Status == 404 && ref.Kind == ToNothing, r.Status == 302 && steps == 20 && ref.Kind == ToCircle:
			return nil
		case r.Trap == 1 && r.Status == 200 && ref.Kind == ToTrap:
			return nil
		case r.Status < 301 || r.Status > 308 || steps > 20:
			return fmt.Errorf("%+v at %s, want %+v", r, u, ref)
		}
		var err error
		if u, err = u.Parse(header(out[:r.HeadLen], "Location")); err != nil {
			return err
		}
	}
}

// TestNoTwoPagesAreAlike: no two pages are equal, except mirrors and duplicates, which are equal to the byte.
func TestNoTwoPagesAreAlike(t *testing.T) {
	s := smallWild(5)
	s.Hosts = 400
	w := newWeb(t, s)
	first := map[[32]byte]Seed{}
	pages, mirrored, doubled := 0, 0, 0
	for h := range w.Hosts() {
		for p := range min(w.Pages(h), 40) {
			if !w.answers(h, p) {
				continue
			}
			pages++
			body, _ := fetched(t, w, h, p, false)
			sum := sha256.Sum256(body)
			from := w.source(h)
			want := Seed{from, w.original(from, p)}
			if got, ok := first[sum]; ok && got != want {
				t.Fatalf("%s equals %s", w.URL(h, p), w.URL(got.Host, got.Page))
			}
			first[sum] = want
			if from != h {
				mirrored++
			}
			if want.Page != p {
				doubled++
			}
			if want != (Seed{h, p}) {
				other, _ := fetched(t, w, want.Host, want.Page, false)
				if !bytes.Equal(body, other) && w.answers(want.Host, want.Page) {
					t.Fatalf("%s does not equal %s", w.URL(h, p), w.URL(want.Host, want.Page))
				}
			}
		}
	}
	t.Logf("%d pages, %d on mirrors, %d duplicates", pages, mirrored, doubled)
	if mirrored < pages/20 || doubled < pages/40 {
		t.Errorf("%d of %d pages on mirrors, %d duplicates; want more", mirrored, pages, doubled)
	}
}

// goldenWebs are hashes of the responses to 100 requests and of their Replies. They are the same on every machine.
var goldenWebs = map[string]string{
	"plain":       "2930718e2b6b7985",
	"wild":        "72ada750b15b24cc",
	"graph":       "59d39843730eee30",
	"crosslinked": "e3bf83a3f58e7749",
}

func TestGolden(t *testing.T) {
	for name, spec := range map[string]Spec{"plain": Plain(42, 1e8), "wild": Wild(42, 100_000),
		"graph":       {Graph: testGraph()},
		"crosslinked": {Hosts: 100, Links: 20, PagesMean: 10, Crosslinked: 0.2}} {
		w := newWeb(t, spec)
		sum := sha256.New()
		r := stream(99)
		for i := range 100 {
			h := int64(below(r.next(), uint64(w.Hosts())))
			target := w.Target(h, int64(below(r.next(), uint64(w.Pages(h)))))
			if i%10 == 9 {
				target = []string{"/robots.txt", "/sitemap.xml", "/none", "/calendar/2026/03/", "/go/5-0-2"}[i/10%5]
			}
			out, reply := w.Answer(nil, testweb.Query{Host: h, Target: target, Gzip: i%2 == 0, Secure: i%3 == 0})
			fmt.Fprintf(sum, "%+v %+v\n%s", w.Host(h), reply, out)
		}
		if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != goldenWebs[name] {
			t.Errorf("%s: got %s, want %s: the same seed now makes another web", name, got, goldenWebs[name])
		}
	}
}

// FuzzAnswer: every target gets a well-formed response.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"/", "", "*", "/robots.txt", "/sitemap.xml", "/sitemap-1.xml", "/sitemap--1.xml", "/go/1-0-3",
		"/go/99999999999999999999-0-1", "/go/1-0-", "/loop/7", "/loop/-1",
		"/missing/1.html", "/calendar/2026/01/", "/calendar/9999/12/", "/calendar/2026/13/",
		"/catalog?sid=000a3f07c2d1&p=3", "/catalog?sid=ffffffffffff&p=9",
		"/list/all/new/", "/private/", "/%70rivate/x", "/%", "/%p", "http://www.example/", "//", "/0", "/-1",
		"/a-00001.html", "/\x00", "/private/show?id=18446744073709551616", ".html", "l",
	} {
		f.Add(s, int64(1), true)
	}
	w := newWeb(f, smallWild(6))
	for h := range int64(50) {
		f.Add(w.Target(w.Hosts()-1-h, w.Pages(w.Hosts()-1-h)-1), w.Hosts()-1-h, h%2 == 0)
	}
	f.Fuzz(func(t *testing.T, target string, host int64, gz bool) {
		wellFormed(t, w, target, host, gz, testweb.Query{})
	})
}

// FuzzConditions: every target, condition and time gets a well-formed response from a web that changes.
func FuzzConditions(f *testing.F) {
	s := smallWild(6)
	s.Changes = &Changes{Lying: 0.2}
	w := newWeb(f, s)
	for h := range int64(50) {
		target := w.Target(h, w.Pages(h)-1)
		out, r := w.Answer(nil, testweb.Query{Host: h, Target: target, Secure: w.secure(h),
			At: time.Unix(h*1e6, 5), Answered: 3})
		f.Add(target, h, h%2 == 0, header(out[:r.HeadLen], "ETag"), header(out[:r.HeadLen], "Last-Modified"), h*1e15)
	}
	f.Add("/", int64(1), false, "*", "Sunday, 06-Nov-94 08:49:37 GMT", int64(-1<<62))
	f.Add("/", int64(1), false, `W/"a, "b,, "`, "x", int64(1<<62))
	f.Fuzz(func(t *testing.T, target string, host int64, gz bool, none, since string, at int64) {
		wellFormed(t, w, target, host, gz, testweb.Query{IfNoneMatch: none, IfModifiedSince: since,
			At: time.Unix(0, at)})
	})
}

// wellFormed requests a target and checks the response. q has the other parts of the query.
func wellFormed(t *testing.T, w *Web, target string, host int64, gz bool, q testweb.Query) {
	host = int64(uint64(host) % uint64(w.Hosts()))
	q.Host, q.Target, q.Gzip, q.Secure, q.Close, q.Answered = host, target, gz, len(target)%2 == 0,
		len(target)%3 == 0, len(target)%4
	out, r := w.Answer([]byte("before"), q)
	if !bytes.HasPrefix(out, []byte("before")) {
		t.Fatal("Answer overwrote the beginning of dst")
	}
	out = out[len("before"):]
	if r.Fault != testweb.NoFault {
		if r.Cut < 0 || r.Cut > len(out) || r.Page >= 0 {
			t.Fatalf("%+v of %d bytes", r, len(out))
		}
		if len(out) == 0 {
			return
		}
	}
	head, body := string(out[:r.HeadLen]), out[r.HeadLen:]
	if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", r.Status)) || !strings.HasSuffix(head, "\r\n\r\n") ||
		strings.Count(head, "\r\n\r\n") != 1 {
		t.Fatalf("head %q, reply %+v", head, r)
	}
	if r.Status == 304 {
		if len(body) > 0 || r.Page < 0 || q.IfNoneMatch+q.IfModifiedSince == "" {
			t.Fatalf("head %q, %d bytes of body, reply %+v", head, len(body), r)
		}
	} else if n := header(out[:r.HeadLen], "Content-Length"); n != fmt.Sprint(len(body)) {
		t.Fatalf("length %s, want %d", n, len(body))
	}
	if (header(out[:r.HeadLen], "Connection") == "close") != q.Close {
		t.Fatalf("head %q, want close: %v", head, q.Close)
	}
	if r.Page >= w.Pages(host) || r.Page < -1 || r.Page >= 0 && w.Target(host, r.Page) != target {
		t.Fatalf("got page %d for %q", r.Page, target)
	}
	if (r.RetryAfter > 0) != (r.Status == 429) || (r.Rule != "") != r.Denied {
		t.Fatalf("reply %+v", r)
	}
	q.Head = true
	only, _ := w.Answer(nil, q)
	if string(only) != head {
		t.Fatalf("HEAD: %q, want %q", only, head)
	}
}
