package broken

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/crawl"

// A world is a crawl directory in memory.
type world struct {
	*testdisk.Mem
	t     *testing.T
	log   *report.Log
	links *linklog.Writer
	now   time.Time
}

func newWorld(t *testing.T, links bool) *world {
	w := &world{Mem: testdisk.NewMem(), t: t, now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	err := errors.Join(w.MkdirAll(dir+"/state/spill", 0o755), w.MkdirAll(dir+"/reports", 0o755))
	if err == nil {
		w.log, err = report.OpenLog(w, dir+"/logs/crawl.log")
	}
	if err == nil && links {
		w.links, err = linklog.Open(linklog.Config{Dir: dir, FS: w})
	}
	must.Do(t, err)
	return w
}

// visit writes the lines of a visit: to crawl.log, and to the link log if the world has one.
func (w *world) visit(code int, url, via string, notes []string, links ...string) {
	w.now = w.now.Add(time.Second)
	hops := ""
	if via != "" {
		hops = "L"
	}
	if strings.HasSuffix(url, ".png") {
		hops = "E"
	}
	if strings.HasSuffix(url, "/robots.txt") {
		hops += "P"
	}
	w.log.Write(report.Line{Time: w.now, Code: code, Size: 10, URL: url, Via: via, Hops: hops, Notes: notes})
	var ls linklog.Links
	ls.Reset(code == 200)
	for _, l := range links {
		ls.Add(l, "a@href", nil, nil)
	}
	w.links.Write(&linklog.Line{URL: url, Time: w.now, Status: code, Links: &ls})
}

// write writes the list and returns it without its header.
func (w *world) write(cfg Config) (rows [][]string, res Result) {
	w.t.Helper()
	if err := errors.Join(w.log.Flush(), w.links.Close()); err != nil {
		w.t.Fatal(err)
	}
	cfg.FS, cfg.memory = w, 4096
	res, err := Write(dir, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := disk.ReadFile(w, dir+"/reports/broken.csv", 1<<30)
	if err != nil {
		w.t.Fatal(err)
	}
	rows, err = csv.NewReader(strings.NewReader(string(b))).ReadAll()
	if err != nil || len(rows) == 0 || strings.Join(rows[0], ",") != "url,status,error,links,pages,via,kind" {
		w.t.Fatalf("%q: %v", rows, err)
	}
	if res.URLs != int64(len(rows)-1) {
		w.t.Errorf("%d URLs in %d rows", res.URLs, len(rows)-1)
	}
	for i, row := range rows { // most tests have no redirect
		if rows[i] = row[:6]; row[5] == "" {
			rows[i] = row[:5]
		}
		if (row[6] == "requisite") != strings.HasSuffix(row[0], ".png") {
			w.t.Errorf("%s is a %s", row[0], row[6])
		}
	}
	left, err := w.ReadDir(dir + "/state/spill")
	if err != nil || len(left) > 0 {
		w.t.Errorf("left: %v, %v", left, err)
	}
	return rows[1:], res
}

const a = "http://a.example"

// story visits URLs of every kind.
func story(w *world) {
	w.visit(200, a+"/robots.txt", a+"/", nil)
	w.visit(404, "http://b.example/robots.txt", a+"/", nil)
	w.visit(200, a+"/", "", nil, a+"/gone", a+"/ok", a+"/dns", a+"/gone", a+"/back", "http://out.example/")
	w.visit(404, a+"/gone", a+"/", nil)
	w.visit(200, a+"/ok", a+"/", nil, a+"/gone")
	w.visit(-8, a+"/dns", a+"/", []string{"5t", "error:dns", "cause:look up a, b: no such host"})
	w.visit(-61, a+"/dead", a+"/", []string{"error:robots-unreachable", "cause:robots.txt: dial tcp: refused"})
	w.visit(503, a+"/back", a+"/", nil)
	w.visit(200, a+"/back", a+"/", nil)
	w.visit(200, a+"/worse", a+"/", nil)
	w.visit(500, a+"/worse", a+"/", nil)
	w.visit(301, a+"/moved", a+"/", nil)
	w.visit(302, a+"/loop", a+"/", []string{"too-many-redirects"})
	w.visit(-9998, a+"/denied", a+"/", []string{"rule:x"})
	w.visit(-5003, a+"/quota", a+"/", nil)
	w.visit(-5001, a+"/private", a+"/", []string{"error:refused-address"})
	w.visit(404, a+"/seed", "", nil)
	w.visit(-2, "https://a.example/", "", []string{"trying-http", "error:tls", "cause:EOF"})
	w.visit(-2, "https://b.example/", "", []string{"trying-http", "error:tls", "cause:EOF"})
	w.visit(200, "http://b.example/", "", nil, "https://b.example/")
}

func TestWrite(t *testing.T) {
	w := newWorld(t, true)
	story(w)
	rows, res := w.write(Config{})
	want := [][]string{
		{a + "/dead", "", "robots-unreachable: robots.txt: dial tcp: refused", "1", a + "/"},
		{a + "/dns", "", "dns: look up a, b: no such host", "1", a + "/"},
		{a + "/gone", "404", "", "2", a + "/ " + a + "/ok"},
		{a + "/loop", "302", "too-many-redirects", "1", a + "/"},
		{a + "/seed", "404", "", "0", ""},
		{a + "/worse", "500", "", "1", a + "/"},
		{"https://b.example/", "", "tls: EOF", "1", "http://b.example/"}, // nothing links to https://a.example/
	}
	if diff := cmp.Diff(want, rows); diff != "" || !res.Links {
		t.Errorf("%+v; -want +got\n%s", res, diff)
	}
}

// A page that links to a redirect is named, not the redirect, unless nothing links to that.
func TestRedirects(t *testing.T) {
	for _, links := range []bool{true, false} {
		w := newWorld(t, links)
		redirect := func(from, via, to string) {
			w.log.Write(report.Line{Time: w.now, Code: 301, Size: 10, URL: a + from, Via: via, Hops: "L"})
			var ls linklog.Links
			ls.Reset(true)
			ls.Add(a+to, linklog.Redirect, nil, nil)
			w.links.Write(&linklog.Line{URL: a + from, Time: w.now, Status: 301, Links: &ls})
		}
		target := func(url, via string) {
			w.log.Write(report.Line{Time: w.now, Code: 404, Size: 10, URL: a + url, Via: a + via, Hops: "LR"})
			w.links.Write(&linklog.Line{URL: a + url, Time: w.now, Status: 404, Links: &linklog.Links{}})
		}
		w.visit(200, a+"/", "", nil, a+"/r", a+"/r1", a+"/r2")
		w.visit(200, a+"/direct", a+"/", nil, a+"/gone", a+"/r")
		redirect("/r", a+"/", "/gone")
		target("/gone", "/r")
		redirect("/r1", a+"/", "/r2") // a chain
		redirect("/r2", a+"/r1", "/end")
		target("/end", "/r2")
		redirect("/seed", "", "/lost")
		target("/lost", "/seed")
		rows, _ := w.write(Config{})
		want := [][]string{
			{a + "/end", "404", "", "1", a + "/", a + "/r1"},
			{a + "/gone", "404", "", "2", a + "/ " + a + "/direct", a + "/r -"},
			{a + "/lost", "404", "", "1", a + "/seed"},
		}
		if !links {
			want = [][]string{{a + "/end", "404", "", "", a + "/r2"}, {a + "/gone", "404", "", "", a + "/r"},
				{a + "/lost", "404", "", "", a + "/seed"}}
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("link log %v: -want +got\n%s", links, diff)
		}
	}
}

func TestWriteWithoutLinks(t *testing.T) {
	for name, w := range map[string]*world{"no link log": newWorld(t, false), "too large": newWorld(t, true)} {
		story(w)
		rows, res := w.write(Config{MaxLinkLog: 10})
		want := [][]string{
			{a + "/dead", "", "robots-unreachable: robots.txt: dial tcp: refused", "", a + "/"},
			{a + "/dns", "", "dns: look up a, b: no such host", "", a + "/"},
			{a + "/gone", "404", "", "", a + "/"},
			{a + "/loop", "302", "too-many-redirects", "", a + "/"},
			{a + "/seed", "404", "", "", ""},
			{a + "/worse", "500", "", "", a + "/"},
		}
		if diff := cmp.Diff(want, rows); diff != "" || res.Links {
			t.Errorf("%s: %+v; -want +got\n%s", name, res, diff)
		}
	}
}

// The list says which of the URLs pages embed.
func TestRequisites(t *testing.T) {
	w := newWorld(t, false)
	w.visit(404, "http://cdn.example/x.png", a+"/", nil)
	w.visit(404, a+"/gone", a+"/", nil)
	if rows, _ := w.write(Config{}); len(rows) != 2 || rows[1][0] != "http://cdn.example/x.png" {
		t.Errorf("%q", rows)
	}
}

// Without a log, and without a broken URL, the list is empty.
func TestNothingBroken(t *testing.T) {
	w := newWorld(t, true)
	w.visit(200, a+"/", "", nil, a+"/gone")
	if rows, _ := w.write(Config{}); len(rows) > 0 {
		t.Errorf("%q", rows)
	}
	must.Do(t, w.Remove(dir+"/logs/crawl.log"))
	if rows, _ := w.write(Config{}); len(rows) > 0 {
		t.Errorf("%q", rows)
	}
}

// A page of a stranger cannot make a long list, a formula, or a row of its own. Damaged lines are skipped.
func TestHostile(t *testing.T) {
	w := newWorld(t, true)
	for i := range 100 {
		w.visit(200, fmt.Sprintf("%s/%02d", a, i), a+"/", nil, a+"/gone", "=cmd()", a+"/x\x00y")
	}
	w.visit(404, a+"/gone", a+"/", nil)
	w.visit(404, "=cmd()", a+"/", nil)
	w.visit(-2, a+"/quote", a+"/", []string{"error:connect", "cause:=x\"\n\x1b[m,y" + strings.Repeat("z", 1000)})
	w.log.Add(func(b []byte) []byte {
		b = append(b, "2026-01-02T15:04:05.000Z   404 bad line\n\nshort\n"...)
		b = append(b, "2026-01-02T15:04:05.000Z   404  "+strings.Repeat("x", 2<<20)+"\n"...)
		return append(b, "2026-01-02T15:04:05.000Z   xyz         10 http://c.example/ L - - #001 - - - -\n"...)
	})
	rows, _ := w.write(Config{})
	if len(rows) != 3 || rows[0][0] != "'=cmd()" || rows[1][0] != a+"/gone" || rows[1][3] != "101" ||
		len(strings.Fields(rows[1][4])) != maxPages || !strings.HasPrefix(rows[1][4], a+"/ "+a+"/00 ") ||
		!strings.HasPrefix(rows[2][2], "connect: =x\"%0A%1B[m,yzzz") || len(rows[2][2]) > maxText+50 {
		t.Errorf("%.600q", rows)
	}
}

// The list is what a map gives, for any visits and links.
func TestAgainstMap(t *testing.T) {
	r := testseed.Rand(t)
	for range 20 {
		w := newWorld(t, true)
		state := map[string]int{}
		linksOf := map[string][]string{}
		first := map[string]string{}
		for range 500 {
			u := fmt.Sprintf("%s/%d", a, r.IntN(60))
			code := []int{200, 200, 200, 404, 500, 301}[r.IntN(6)]
			var links []string
			for range r.IntN(4) {
				links = append(links, fmt.Sprintf("%s/%d", a, r.IntN(80)))
			}
			if code != 200 {
				links = nil
			}
			first[u] = fmt.Sprintf("%s/via%d", a, r.IntN(3))
			w.visit(code, u, first[u], nil, links...)
			state[u], linksOf[u] = code, links
		}
		var want [][]string
		for u, code := range state {
			if code < 400 {
				continue
			}
			pages := []string{first[u]}
			for p, links := range linksOf {
				if slices.Contains(links, u) {
					pages = append(pages, p)
				}
			}
			slices.Sort(pages)
			want = append(want, []string{u, strconv.Itoa(code), "", strconv.Itoa(len(pages)),
				strings.Join(pages[:min(len(pages), maxPages)], " ")})
		}
		slices.SortFunc(want, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		rows, _ := w.write(Config{})
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	}
}

// A full disk is an error that says so, and the old list stays.
func TestFullDisk(t *testing.T) {
	w := newWorld(t, true)
	story(w)
	w.write(Config{})
	old := must.Get(disk.ReadFile(w, dir+"/reports/broken.csv", 1<<20))(t)
	w.visit(404, a+"/new", a+"/", nil)
	must.Do(t, w.log.Flush())
	full := testdisk.NewFaulty(w, func(c testdisk.Call) testdisk.Fault {
		if c.Op.Grows() {
			return testdisk.Fault{Err: syscall.ENOSPC}
		}
		return testdisk.Fault{}
	})
	if _, err := Write(dir, Config{FS: full}); !disk.IsFull(err) || !strings.Contains(err.Error(), "broken.csv") {
		t.Errorf("error %v", err)
	}
	if now, err := disk.ReadFile(w, dir+"/reports/broken.csv", 1<<20); err != nil || string(now) != string(old) {
		t.Errorf("%q became %q; %v", old, now, err)
	}
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(dir, Config{FS: w, Stop: stop}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A sitemap that is a guess is broken only for pages that link to it.
func TestGuess(t *testing.T) {
	for _, links := range []bool{false, true} {
		w := newWorld(t, links)
		w.visit(200, a+"/", "", nil, a+"/linked.xml")
		w.visit(404, a+"/sitemap.xml", a+"/robots.txt", []string{"sitemap-guess"})
		w.visit(404, a+"/linked.xml", a+"/robots.txt", []string{"sitemap-guess"})
		rows, _ := w.write(Config{})
		if want := map[bool]int{true: 1}[links]; len(rows) != want || want > 0 && rows[0][0] != a+"/linked.xml" {
			t.Errorf("with a link log: %t: %q", links, rows)
		}
	}
}
