package replay

import (
	"flag"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const pixel = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30"/></svg>`

// images is a script's expression: all images of the page are there.
const images = `[...document.images].length > 0 && [...document.images].every(i => i.complete && i.naturalWidth > 0)`

// site is a small archive: pages of two hosts that use each other, at two times.
var site = map[string]string{
	"https://www.news.example/ @20260101000000": "text/html\n<title>Old news</title><a id=a href=/old>x</a>",
	"https://www.news.example/ @20260601000000": `text/html; charset=iso-8859-1
<!doctype html><html><head><title>Caf` + "\xe9" + `</title>
<link rel=stylesheet href="https://cdn.example/s.css" integrity="sha256-wrong" crossorigin>
<base target="_blank"></head><body>
<img src="/a.svg"><img src="https://cdn.example/b.svg" srcset="//cdn.example/b2.svg 2x">
<p style="width:40px;height:30px;background:url(//cdn.example/c.svg)">x</p>
<a id=story href="/story?id=1&amp;x=2">story</a>
<a id=moved href="http://news.example/moved" target=_top>moved</a>
<a id=missing href="https://gone.example/x#y">missing</a>
<iframe src="https://cdn.example/widget.html"></iframe></body></html>`,
	"https://www.news.example/a.svg @20260601000000": "image/svg+xml\n" + pixel,
	"https://cdn.example/b.svg @20260601000100":      "image/svg+xml\n" + pixel,
	"https://cdn.example/b2.svg @20260601000100":     "image/svg+xml\n" + pixel,
	"https://cdn.example/c.svg @20260601000100":      "image/svg+xml\n" + pixel,
	"https://cdn.example/s.css @20260601000000": "text/css\n" +
		`@import "more.css"; body{color:rgb(1,2,3);background:url('//www.news.example/a.svg')}`,
	"https://cdn.example/more.css @20260601000000":    "text/css\np{font-weight:900}",
	"https://cdn.example/widget.html @20260601000000": "text/html\n<title>w</title><img src=b.svg>",
	"https://www.news.example/story?id=1&x=2 @20260601000000": "text/html\n" +
		"<title>Story</title><a id=up href='https://www.news.example/'>up</a>",
	"http://news.example/moved @20260601000000": "HTTP/1.1 301 Moved\r\n" +
		"Location: https://www.news.example/story?id=1&x=2\r\nContent-Length: 0\r\n\r\n",
	"https://app.example/ @20260601000000": `text/html; charset=utf-8
<!doctype html><title>App</title><div id=out></div><script type=module>
import { word } from './lib/module.js';
const out = [];
const say = (name, value) => out.push(name + '=' + value);
say('import', word);
say('fetch', await (await fetch('https://cdn.example/data.json')).json().then(d => d.n));
say('relative', await (await fetch('/data.json')).json().then(d => d.n));
await new Promise(done => { const x = new XMLHttpRequest(); x.open('GET', '//cdn.example/data.json');
  x.onload = () => { say('xhr', JSON.parse(x.responseText).n); done(); }; x.send(); });
for (const [name, make] of [['src', i => { i.src = 'https://cdn.example/b.svg'; }],
  ['html', i => { document.getElementById('out').innerHTML = '<img src="https://cdn.example/b2.svg">'; }],
  ['attribute', i => { i.setAttribute('src', '//cdn.example/c.svg'); }]]) {
  const i = new Image();
  document.body.append(i);
  make(i);
  const shown = name === 'html' ? document.querySelector('#out img') : i;
  await new Promise((done, fail) => { shown.onload = done; setTimeout(fail, 20000); });
  say(name, shown.naturalWidth);
}
const s = document.createElement('script');
s.src = 'https://cdn.example/s.js';
await new Promise(done => { s.onload = done; document.head.append(s); });
say('script', self.loaded);
say('dynamic', (await import('./lib/more.js')).word);
const w = new Worker('/worker.js');
say('worker', await new Promise(done => { w.onmessage = e => done(e.data); }));
localStorage.setItem('a', 'stored');
say('storage', localStorage.getItem('a'));
history.pushState(null, '', 'https://app.example/state/2?x');
say('history', location.pathname);
document.title = out.join(' ');
dispatchEvent(new Event('pageshow'));
</script>`,
	"https://app.example/lib/module.js @20260601000000": "text/javascript\nexport const word = 'static';",
	"https://app.example/lib/more.js @20260601000000":   "text/javascript\nexport const word = 'later';",
	"https://app.example/data.json @20260601000000":     `application/json` + "\n" + `{"n": 2}`,
	"https://app.example/worker.js @20260601000000":     "text/javascript\npostMessage('works');",
	"https://cdn.example/data.json @20260601000000":     `application/json` + "\n" + `{"n": 1}`,
	"https://cdn.example/s.js @20260601000000":          "text/javascript\nself.loaded = 'yes';",
}

// popups are pages that open other pages by themselves, and when the reader clicks.
var popups = map[string]string{
	"https://popup.example/ @20260601000000": `text/html
<!doctype html><title>Popup</title><iframe src="https://cdn.example/inner"></iframe>
<button onclick="window.open('https://popup.example/clicked')">x</button><script>
open('https://popup.example/unasked');
onmessage = () => { document.title = 'Stayed'; dispatchEvent(new Event('pageshow')); };
</script>`,
	"https://cdn.example/inner @20260601000000": `text/html
<title>inner</title><a id=up href="https://popup.example/back" target=_top>x</a><script>
open('https://popup.example/unasked');
const up = new URL(document.getElementById('up').href);
top.postMessage({orbweaver: 'go', url: up.origin + '/unasked'}, '*');
parent.postMessage('', '*');
</script>`,
	"https://popup.example/unasked @20260601000000": "text/html\n<title>Unasked</title>",
	"https://popup.example/clicked @20260601000000": "text/html\n<title>Clicked</title>",
	"https://popup.example/back @20260601000000":    "text/html\n<title>Back</title>",
}

var pictures = flag.String("pictures", "", "Write pictures of the pages to this directory.")

func picture(b *testbrowser.Browser, name string) {
	if *pictures != "" {
		b.Screenshot(filepath.Join(*pictures, name+".png"))
	}
}

// view returns the viewer's URL for an archived URL.
func (s *served) view(u, at string) string {
	return s.URL() + "view?" + url.Values{"url": {u}, "at": {at}}.Encode()
}

// TestPages uses one browser for all pages, because its start takes a second.
func TestPages(t *testing.T) {
	testtier.OnlySoak(t, "it drives Chromium")
	b := testbrowser.Start(t)
	s := serve(t, testarchive.Write(t, site))
	testViewer(t, b, s)
	testScripts(t, b, s)
	testPopups(t, b)
	testSitesAreApart(t, b)
}

func testViewer(t *testing.T, b *testbrowser.Browser, s *served) {
	b.Go(s.URL())
	picture(b, "start")
	if got := b.Text("[...document.querySelectorAll('.main a')].map(a => a.textContent).join()"); got !=
		"App,w,Café,Story" {
		t.Errorf("the list has the pages %s", got)
	}
	b.Run(`document.querySelector('input[name=q]').value = 'https://www.news.example/'; document.forms[0].submit()`)
	b.Wait(`location.search.includes('view') || location.pathname.endsWith('view')`)
	b.Wait(`document.title.startsWith('Café')`)
	const news = "s-www--news--example"
	b.WaitFrame(news, images)
	b.WaitFrame(news, `getComputedStyle(document.body).color === 'rgb(1, 2, 3)'`)
	if got := b.TextFrame(news, `getComputedStyle(document.querySelector('p')).fontWeight`); got != "900" {
		t.Errorf("the imported style sheet has no effect: %s", got)
	}
	b.WaitFrame("s-cdn--example", images)
	picture(b, "page")
	if got := b.Text("document.getElementById('time').textContent"); got != "1 June 2026, 00:00:00 UTC" {
		t.Errorf("the bar shows the time %q", got)
	}
	b.ClickFrame(news, "#story")
	b.Wait(`document.title.startsWith('Story') && document.getElementById('url').value.includes('story?id=1&x=2')`)
	b.ClickFrame(news, "#up")
	b.Wait(`document.title.startsWith('Café')`)
	b.ClickFrame(news, "#moved")
	b.Wait(`document.title.startsWith('Story')`)
	b.ClickFrame(news, "#up")
	b.Wait(`document.title.startsWith('Café')`)
	b.ClickFrame(news, "#missing")
	b.Wait(`document.getElementById('time').textContent === 'not in this archive'`)
	b.Wait(`document.getElementById('url').value === 'https://gone.example/x#y'`)
	b.Go(s.view("https://www.news.example/", "20260601000000"))
	b.Wait(`document.getElementById('previous').href`)
	b.Run(`document.getElementById('previous').click()`)
	b.Wait(`document.title.startsWith('Old news')`)
	b.Go(s.URL() + "captures?url=https%3A%2F%2Fwww.news.example%2F")
	if got := b.Text("document.querySelectorAll('tr').length"); got != "2" {
		t.Errorf("the list has %s captures, want 2", got)
	}
	picture(b, "captures")
}

// Archived origins share no storage, also if they are of one domain. No page leaves a cookie.
func testSitesAreApart(t *testing.T, b *testbrowser.Browser) {
	const leave = `text/html
<title>leave</title><script>
for (const d of ['localhost', location.hostname, location.hostname.split('.').slice(1).join('.')])
  document.cookie = 'left=here; path=/; domain=' + d;
document.cookie = 'left=here; path=/';
localStorage.left = 'here'; sessionStorage.left = 'here';
document.title = 'left ' + document.cookie;
</script>`
	const look = `text/html
<title>look</title><script>
document.title = 'found ' + [document.cookie.slice(0, 9), localStorage.left, sessionStorage.left].filter(v => v).join();
</script>`
	s := serve(t, testarchive.Write(t, map[string]string{
		"https://one.example/": leave, "https://www.one.example/": look, "https://two.example/": look,
		"http://one.example/look": look, "https://one.example/look": look,
	}))
	b.Go(s.view("https://one.example/", "20260504030201"))
	b.Wait(`document.title.startsWith('left')`)
	for _, c := range []struct{ url, at, want string }{
		{"https://two.example/", "20260504030201", "found"},
		{"https://www.one.example/", "20260504030201", "found"},
		{"http://one.example/look", "20260504030201", "found"},
		{"https://one.example/look", "20260504030201", "found here,here"},
	} {
		b.Go(s.view(c.url, c.at))
		b.Wait(`document.title.startsWith('found')`)
		if got := strings.TrimSpace(strings.TrimSuffix(b.Text("document.title"), "· Archive")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.url, got, c.want)
		}
	}
	if got := b.Text("document.cookie"); got != "" {
		t.Errorf("the viewer has the cookie %q", got)
	}
}

// Without scripts, links for new windows open in the frame.
func TestWithoutScripts(t *testing.T) {
	s := newServer(t, map[string]string{"http://a.example/": "text/html\n<a href=/x target=_blank>x</a>"})
	host, _ := s.contentHost(weburl.MustParse("http://a.example/"), "20260504030201")
	for agent, want := range map[string]string{"Firefox/145.0": "<a href=/x >x</a>",
		"Chrome/156.0": "<a href=/x target=_blank>x</a>"} {
		res := request(s, host+":8080", "/", "Sec-Fetch-Dest", "iframe", "User-Agent", agent)
		b, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasSuffix(string(b), want) {
			t.Errorf("%s: got %s, %v", agent, b, err)
		}
		policy := res.Header.Get("Content-Security-Policy")
		if got := strings.Contains(policy, "allow-scripts"); got != (agent[0] == 'C') {
			t.Errorf("%s: scripts %v", agent, got)
		}
	}
}

func testScripts(t *testing.T, b *testbrowser.Browser, s *served) {
	b.Go(s.view("https://app.example/", "20260601000000"))
	b.Wait(`document.title.includes('history=')`)
	want := "import=static fetch=1 relative=2 xhr=1 src=40 html=40 attribute=40 script=yes dynamic=later " +
		"worker=works storage=stored history=/state/2"
	if got := strings.TrimSuffix(b.Text("document.title"), " · Archive"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := b.Text("document.getElementById('url').value"); got != "https://app.example/state/2?x" {
		t.Errorf("the bar shows %s", got)
	}
}

// Only a click opens a page, also from a frame within the page.
func testPopups(t *testing.T, b *testbrowser.Browser) {
	s := serve(t, testarchive.Write(t, popups))
	popup := s.view("https://popup.example/", "20260601000000")
	b.Go(popup)
	b.Wait(`document.title.startsWith('Stayed')`)
	b.ClickFrame("s-popup--example", "button")
	b.Wait(`document.title.startsWith('Clicked')`)
	b.Go(popup)
	b.Wait(`document.title.startsWith('Stayed')`)
	b.ClickFrame("s-cdn--example", "#up")
	b.Wait(`document.title.startsWith('Back')`)
	if s.asked("/unasked") {
		t.Error("a page has opened another one by itself")
	}
}
