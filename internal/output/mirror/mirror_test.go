package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const pixel = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30"/></svg>`

var site = map[string]string{
	"http://a.example/":                  "HTTP/1.1 301 Moved\r\nLocation: https://a.example/\r\n\r\n",
	"https://a.example/ @20260101000000": "text/html\n<title>Old</title>",
	"https://a.example/ @20260601000000": `text/html; charset=iso-8859-1
<!doctype html><html><head><title>Caf` + "\xe9" + `</title><base href="/deep/x/">
<link rel=stylesheet href="/s.css?v=1" integrity="sha256-no"></head><body>
<img src="/i"><img srcset="//cdn.example/b.svg 1x, /gone.png 2x" src="//cdn.example/b.svg">
<p style="width:40px;height:30px;background:url(//cdn.example/b.svg)">x</p>
<a id=query href="/list?page=2&amp;sort=a/b#end">query</a> <a href="http://a.example/">home</a>
<a id=dir href="/dir">dir</a> <a href="/dir/">dir/</a> <a href="/dir/file">file</a> <a href="/DIR.html">upper</a>
<a href="/moved#here">moved</a> <a href="/loop">loop</a> <a href="https://other.example/x?y#z">outside</a>
<a href="#top">top</a> <a href="mailto:a@b">mail</a> <a href="../../list?page=2&sort=a/b">relative</a>
<a href="/copy.html">copy</a> <a href="/caf%C3%A9">accent</a> <a href="/broken">broken</a>
<iframe src="//cdn.example/w"></iframe></body></html>`,
	"https://a.example/s.css?v=1": "text/css\nbody{color:rgb(1,2,3);background:url(i)} @import '//cdn.example/m.css';",
	"https://a.example/i":         "image/svg+xml\n" + pixel,
	"https://a.example/list?page=2&sort=a/b": `text/html
<title>List</title><p id=end>x</p><a id=home href="/">home</a>`,
	"https://a.example/dir":        "text/html\n<title>dir</title>",
	"https://a.example/dir/":       "text/html\n<title>dir slash</title><a href=file>f</a>",
	"https://a.example/dir/file":   "application/octet-stream\nfile",
	"https://a.example/dir.html":   "text/html\n<title>dir html</title>",
	"https://a.example/DIR.html":   "text/html\n<title>DIR html</title>",
	"https://a.example/moved":      "HTTP/1.1 302 Found\r\nLocation: /list?page=2&sort=a/b\r\n\r\n",
	"https://a.example/loop":       "HTTP/1.1 302 Found\r\nLocation: /loop2\r\n\r\n",
	"https://a.example/self":       "HTTP/1.1 302 Found\r\nLocation: /self\r\n\r\n",
	"https://a.example/loop2":      "HTTP/1.1 302 Found\r\nLocation: /loop\r\n\r\n",
	"https://a.example/copy.html":  "text/html\n<title>copy</title><a href=/>a</a>",
	"https://a.example/caf%C3%A9":  "text/html; charset=utf-8\n<title>é</title>",
	"https://a.example/gone.png":   "HTTP/1.1 404 Not Found\r\nContent-Type: image/png\r\n\r\nno",
	"https://a.example/con":        "text/plain\ndevice",
	"https://a.example/a:b*c|d":    "text/plain\nodd",
	"https://a.example/end.":       "application/x\ndot",
	"https://a.example//double//x": "text/html\n<a href=/>x</a>",
	"https://a.example/broken": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" +
		"\x1f\x8b\x08broken",
	"https://a.example/" + strings.Repeat("long/", 60) + "x.html": "text/html\n<a href=/>x</a>",
	"https://a.example/~aaaaaaaaaaaaaaaa.html":                    "text/html\n<title>like a hash</title>",
	"https://a.example/feed/": "application/rss+xml\n" + `<rss><channel><link>https://a.example/</link>` +
		`<item><link>https://a.example/list?page=2&amp;sort=a/b</link><enclosure url="/i"/>` +
		`<link>12 apples</link><link>/only</link></item></channel></rss>`,
	"https://a.example/feed2":   "text/xml; charset=utf-8\n<rss/>",
	"http://a.example/only":     "text/html\n<title>http</title>",
	"https://cdn.example/b.svg": "image/svg+xml\n" + pixel,
	"https://cdn.example/m.css": "text/css\np{font-weight:900}",
	"https://cdn.example/w":     "text/html\n<title>w</title><img src=b.svg>",
	"http://b.example:8080/x":   "text/html\n<a href=//a.example/only>scheme</a>",
	"http://index.html/":        "text/html\n<title>host</title>",
	"http://[2001:db8::1]/":     "text/html\n<a href=https://a.example/>x</a>",
}

func write(t *testing.T, cfg Config, dirs ...string) Result {
	t.Helper()
	cfg.Archive = captures.New(nil, warc.Places(dirs...), nil)
	res, err := Write(context.Background(), cfg)
	must.Do(t, err)
	if _, err := os.Stat(cfg.Dir + ".partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
	return res
}

// files returns the content of each file below dir, by its name with slashes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		all[filepath.ToSlash(rel)] = string(b)
		return err
	})
	must.Do(t, err)
	return all
}

// links returns the references of an HTML page as its parser sees them.
func links(t *testing.T, text string) (refs []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	must.Do(t, err)
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			switch a.Key {
			case "href", "src", "data", "poster", "action":
				refs = append(refs, a.Val)
			case "srcset":
				for c := range strings.SplitSeq(a.Val, ", ") {
					ref, _, _ := strings.Cut(c, " ")
					refs = append(refs, ref)
				}
			}
		}
	}
	return refs
}

// check walks a mirror: each relative link of a page leads to a file, and no two names differ only in
// case.
func check(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := files(t, dir)
	folded := map[string]string{}
	for name, text := range all {
		if other, ok := folded[strings.ToLower(name)]; ok {
			t.Errorf("%s and %s are one file where case is ignored", name, other)
		}
		folded[strings.ToLower(name)] = name
		if len(name) > maxName+len(startPage) {
			t.Errorf("a name has %d bytes: %s", len(name), name)
		}
		if ext := filepath.Ext(name); ext != ".html" && ext != ".htm" {
			continue
		}
		base := url.URL{Path: "/" + name}
		for _, ref := range links(t, text) {
			u, err := base.Parse(ref)
			if err != nil {
				t.Errorf("%s: the link %q: %v", name, ref, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			if _, ok := all[strings.TrimPrefix(u.Path, "/")]; !ok {
				t.Errorf("%s: the link %q leads to %q, which is not there", name, ref, u.Path)
			}
		}
	}
	return all
}

func TestMirror(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	res := write(t, Config{Dir: out}, testarchive.Write(t, site))
	all := check(t, out)
	for name, want := range map[string]string{
		"a.example/list@page=2&sort=a%2Fb.html": "<title>List</title>",
		"a.example/DIR.html":                    "<title>",
		"a.example/dir/index.html":              "<title>dir slash</title>",
		"a.example/dir/file":                    "file",
		"a.example/i.svg":                       "<svg",
		"a.example/s.css@v=1.css":               "url(\"i.svg\")} @import '../cdn.example/m.css'",
		"a.example/_con.txt":                    "device",
		"a.example/a%3Ab%2Ac%7Cd.txt":           "odd",
		"a.example/end._":                       "dot",
		"a.example/caf%C3%A9.html":              "<title>é</title>",
		"a.example/%/double/%/x.html":           "<a href=\"../../../index.html\">",
		"a.example/feed/index.xml": `<rss><channel><link>../index.html</link>` +
			`<item><link>../list@page=2&amp;sort=a%252Fb.html</link><enclosure url="../i.svg"/>` +
			`<link>12 apples</link><link>../only.html</link></item></channel></rss>`,
		"a.example/feed2.xml":    "<rss/>",
		"b.example+8080/x.html":  "<a href=\"../a.example/only.html\">",
		"_index.html/index.html": "<title>host</title>",
		"index.html":             `<a href="a.example/index.html">`,
	} {
		if name == "a.example/s.css@v=1.css" {
			want = `url("i.svg")} @import "../cdn.example/m.css"`
		}
		if !strings.Contains(all[name], want) {
			t.Errorf("%s: %q lacks %q", name, all[name], want)
		}
	}
	home := all["a.example/index.html"]
	for _, want := range []string{`<meta charset="windows-1252">`, "Caf\xe9", "<base >",
		`href="https://other.example/x?y#z"`, `href="list@page=2&amp;sort=a%252Fb.html#end"`,
		`href="list@page=2&amp;sort=a%252Fb.html#here"`, `href="dir/file"`,
		`https://a.example/gone.png 2x`, `href="mailto:a@b"`, `href="https://a.example/loop"`,
		`href="caf%25C3%25A9.html"`,
		`href="index.html"`} {
		if !strings.Contains(home, want) {
			t.Errorf("the home page lacks %s:\n%s", want, home)
		}
	}
	var marker Result
	if err := json.Unmarshal([]byte(all[markerFile]), &marker); err != nil || !reflect.DeepEqual(marker, res) {
		t.Errorf("%s: %+v, %v, want %+v", markerFile, marker, err, res)
	}
	if int(res.Files) != len(all)-2 || res.Redirects != 4 || res.Errors != 1 || res.Nowhere != 1 ||
		res.Incomplete != 1 {
		t.Errorf("got %+v with %d files", res, len(all))
	}
}

// The mirror judges the type of a page as the crawl does: of several values the last that is a media type counts, and
// without one the body.
func TestTypes(t *testing.T) {
	const page = "\r\n\r\n<!DOCTYPE html><a href=/ok>x</a>"
	site := map[string]string{"http://a.example/ok": "text/html\n<p>"}
	want := []string{"a.example/image", "a.example/ok.html", "a.example/secret.txt", "index.html", "mirror.json"}
	for name, fields := range map[string]string{
		"comma": "Content-Type: text/plain, text/html", "lines": "Content-Type: text/plain\r\nContent-Type: text/html",
		"noslash": "Content-Type: html", "quoted": `Content-Type: "text/html"`, "none": "X: y",
	} {
		// Equal bodies would be revisits.
		site["http://a.example/"+name] = "HTTP/1.1 200 OK\r\n" + fields + page + name
		want = append(want, "a.example/"+name+".html")
	}
	site["http://a.example/secret"] = "HTTP/1.1 200 OK\r\nX-Content-Type-Options: nosniff" + page
	site["http://a.example/image"] = "HTTP/1.1 200 OK\r\n\r\n\x89PNG\r\n\x1a\n"
	dir := filepath.Join(t.TempDir(), "m")
	archive := captures.New(nil, warc.Places(testarchive.Write(t, site)), nil)
	must.Get(Write(t.Context(), Config{Archive: archive, Dir: dir}))(t)
	var got []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		got = append(got, filepath.ToSlash(name))
		b, bad := os.ReadFile(path)
		if strings.Contains(string(b), "href=/ok") && !strings.HasSuffix(name, "secret.txt") {
			t.Errorf("%s has its links unchanged", name)
		}
		return errors.Join(err, bad)
	})
	slices.Sort(want)
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestAt(t *testing.T) {
	dir := testarchive.Write(t, site)
	out := filepath.Join(t.TempDir(), "out")
	write(t, Config{Dir: out, At: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}, dir)
	if got := check(t, out)["a.example/index.html"]; !strings.Contains(got, "<title>Old</title>") {
		t.Errorf("got %q", got)
	}
}

// The start page lists the files of a host that has no page.
func TestOnlyFiles(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	res := write(t, Config{Dir: out}, testarchive.Write(t, map[string]string{
		"http://a.example/1.pdf": "application/pdf\n1", "http://a.example/2.pdf": "application/pdf\n2",
		"http://b.example/1.pdf": "application/pdf\n3", "http://b.example/x": "text/html\nx",
	}))
	refs := links(t, check(t, out)["index.html"])
	if want := []string{"a.example/1.pdf", "a.example/2.pdf", "b.example/x.html"}; !slices.Equal(refs, want) ||
		res.Hosts != 2 || res.Pages != 1 {
		t.Errorf("the start page has the links %q, want %q; %+v", refs, want, res)
	}
}

// An archive without a page is no mirror.
func TestNothing(t *testing.T) {
	dir := testarchive.Write(t, map[string]string{
		"http://a.example/ @20260101000000": "text/html\nthe same content in both",
		"http://b.example/ @20260102000000": "text/html\nthe same content in both",
		"http://c.example/":                 "HTTP/1.1 404 Not Found\r\n\r\n",
		"http://d.example/":                 "HTTP/1.1 204 No Content\r\n\r\n",
		"http://e.example/":                 "HTTP/1.1 302 Found\r\nLocation: javascript:alert(1)\r\n\r\n",
		"http://f.example/":                 "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n",
	})
	index := filepath.Join(dir, "indexes", "index.cdxj")
	lines, err := os.ReadFile(index)
	must.Do(t, err)
	_, rest, _ := strings.Cut(string(lines), "\n") // without a.example, as if another crawl had it
	must.Do(t, os.WriteFile(index, []byte(rest), 0o644))
	out := filepath.Join(t.TempDir(), "out")
	res, err := Write(context.Background(), Config{Archive: captures.New(nil, warc.Places(dir), nil), Dir: out})
	want := Result{Type: "mirror", Errors: 2, Nowhere: 1, NoOriginal: 1, Redirects: 1}
	if !errors.Is(err, ErrNothing) || !reflect.DeepEqual(res, want) {
		t.Errorf("got %+v, %v, want %+v", res, err, want)
	}
	if left, err := filepath.Glob(out + "*"); err != nil || len(left) > 0 {
		t.Errorf("it left %q, %v", left, err)
	}
}

func TestDirectory(t *testing.T) {
	dir := testarchive.Write(t, map[string]string{"http://a.example/": "text/html\none"})
	tmp := t.TempDir()
	archive := captures.New(nil, warc.Places(dir), nil)
	fail := func(name string, want error, cfg Config) {
		t.Helper()
		cfg.Archive = archive
		if _, err := Write(context.Background(), cfg); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	other := filepath.Join(tmp, "other")
	must.Do(t, os.MkdirAll(other, 0o755))
	write(t, Config{Dir: other}, dir) // empty: fine
	fail("a mirror", ErrNotEmpty, Config{Dir: other})
	write(t, Config{Dir: other, Overwrite: true}, dir)
	must.Do(t, os.Remove(filepath.Join(other, markerFile)))
	fail("other files", ErrNoMirror, Config{Dir: other, Overwrite: true})
	if got := files(t, other); len(got) != 2 {
		t.Errorf("the files are %q", got)
	}
	busy := filepath.Join(tmp, "busy")
	work, err := disk.OpenWork(disk.OS, busy+".partial")
	must.Do(t, err)
	fail("another run", disk.ErrLocked, Config{Dir: busy})
	must.Do(t, work.Close())
	must.Do(t, os.Symlink(other, busy+".partial"))
	fail("a link", disk.ErrForeign, Config{Dir: busy})
	if got := files(t, other); len(got) != 2 {
		t.Errorf("the files behind the link are %q", got)
	}
	must.Do(t, os.Remove(busy+".partial"))
	write(t, Config{Dir: busy}, dir)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := filepath.Join(tmp, "stopped")
	if _, err := Write(ended, Config{Archive: archive, Dir: stopped}); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped run: %v", err)
	}
	if _, err := os.Stat(stopped); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stopped run left its directory: %v", err)
	}
}

// Whatever operation of the disk fails, the directory is as before or complete.
func TestFaults(t *testing.T) {
	dir := testarchive.Write(t, map[string]string{"http://a.example/": "text/html\none",
		"http://a.example/x": "text/html\ntwo"})
	out := filepath.Join(t.TempDir(), "out")
	write(t, Config{Dir: out}, dir)
	before := files(t, out)
	boom := errors.New("boom")
	for n := int64(1); ; n++ {
		faulty := testdisk.NewFaulty(disk.OS, testdisk.FailAt(n, boom))
		_, err := Write(context.Background(), Config{Archive: captures.New(nil, warc.Places(dir), nil), Dir: out,
			Overwrite: true, FS: faulty})
		if _, changes := faulty.Calls(); changes < n {
			must.Do(t, err)
			break
		}
		if got := files(t, out); !maps.Equal(got, before) {
			t.Fatalf("failure %d (%v): the files are %q", n, err, got)
		}
	}
}

func TestNames(t *testing.T) {
	for _, u := range []string{"http://a.example/../../etc/passwd", "http://a.example/%2e%2e/%2e%2e/x",
		"http://a.example/..%2f..%2fx", "http://a.example/a%00b", `http://a.example/a\..\..\b`, "http://a.example/...",
		"http://a.example/?../../x", "http://a.example/?..%5C..", "http://a.example/C:/x", "http://a.example/aux.txt",
		"http://a.example/LPT1", "http://a.example/" + strings.Repeat("x", 5000),
		"http://" + strings.Repeat("a.", 120) + "b/"} {
		name, _ := nameOf(weburl.MustParse(u), "text/html")
		parts := strings.Split(name, "/")
		if !filepath.IsLocal(name) || len(name) > maxName || strings.ContainsAny(name, "\\:*?\"<>|\x00") ||
			slices.Contains(parts, "") || slices.Contains(parts, "..") || slices.Contains(parts, ".") {
			t.Errorf("%.60s: the name %s", u, name)
		}
		for _, p := range parts {
			if reserved.MatchString(p) || strings.HasSuffix(p, ".") {
				t.Errorf("%.60s: Windows refuses the part %s", u, p)
			}
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"a/x.html", "a/y.html", "y.html"}, {"a/x.html", "b/y.html", "../b/y.html"}, {"a/b/c", "a/d", "../d"},
		{"a/b", "a/b/c", "b/c"}, {"a/b", "a/100%.html", "100%25.html"}, {"index.html", "a/b", "a/b"},
	} {
		if got := relative(c.from, c.to); got != c.want {
			t.Errorf("from %s to %s: got %s, want %s", c.from, c.to, got, c.want)
		}
	}
}

// Archives of random URLs, many of which want the same name.
func TestRandom(t *testing.T) {
	rng := testseed.Rand(t)
	words := []string{"a", "A", "b", "a.html", "A.HTML", "index.html", "", "~aaaaaaaaaaaaaaaa", "con", "x.",
		"%25", "a@q"}
	for range 5 {
		responses := map[string]string{}
		var refs bytes.Buffer
		for range 50 {
			u := []string{"http://h.example", "https://h.example", "http://H2.example"}[rng.IntN(3)]
			for range 1 + rng.IntN(3) {
				u += "/" + words[rng.IntN(len(words))]
			}
			if rng.IntN(4) == 0 {
				u += "?q" + words[rng.IntN(len(words))]
			}
			parsed, err := weburl.Parse(u)
			must.Do(t, err)
			responses[parsed.String()] = []string{"text/html\n", "text/plain\n", "text/css\n"}[rng.IntN(3)]
			fmt.Fprintf(&refs, "<a href='%s'>%s</a>\n", parsed, parsed)
		}
		for u, head := range responses {
			responses[u] = head + refs.String() + u
		}
		out := filepath.Join(t.TempDir(), "out")
		res := write(t, Config{Dir: out}, testarchive.Write(t, responses))
		if all := check(t, out); int(res.Files) != len(responses) || len(all) != len(responses)+2 {
			t.Errorf("%d URLs became %d files: %+v", len(responses), len(all), res)
		}
	}
}

func TestBrowser(t *testing.T) {
	testtier.OnlySoak(t, "it drives Chromium")
	out := filepath.Join(t.TempDir(), "out")
	write(t, Config{Dir: out}, testarchive.Write(t, site))
	b := testbrowser.Start(t)
	b.Go("file://" + out + "/index.html")
	b.Run("[...document.links].find(a => a.textContent === 'https://a.example/').click()")
	b.Wait("document.title === 'Café'")
	b.Wait("[...document.images].length === 2 && [...document.images].every(i => i.complete && i.naturalWidth > 0)")
	b.Wait("getComputedStyle(document.body).color === 'rgb(1, 2, 3)'")
	b.Run("document.getElementById('query').click()")
	b.Wait("document.title === 'List' && location.hash === '#end'")
	b.Run("document.getElementById('home').click()")
	b.Wait("document.title === 'Café'")
}
