package browser

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
)

// everyWay tries all ways to the network that a page has. %s is the address of a server of this machine.
const everyWay = `<!DOCTYPE html>
<link rel=dns-prefetch href=//dns.example><link rel=preconnect href=https://preconnect.example>
<link rel=prefetch href=https://prefetch.example/x.js><link rel=preload as=script href=https://preload.example/x.js>
<link rel=modulepreload href=https://module.example/x.js><link rel=manifest href=https://manifest.example/m.json>
<link rel=icon href=https://icon.example/i.bin><link rel=stylesheet href=https://style.example/x.css>
<script type=speculationrules>{"prerender": [{"urls": ["/prerendered"], "eagerness": "immediate"}],
	"prefetch": [{"urls": ["/prefetched"], "eagerness": "immediate"}]}</script>
<img src=https://image.example/i.bin><img src=http://SERVER/image><video src=https://video.example/v.bin autoplay></video>
<iframe src=https://frame.example/></iframe><iframe src=file:///etc/passwd></iframe><iframe src=chrome://version></iframe>
<object data=https://object.example/o.bin></object><a id=ping href=#x ping=https://ping.example/p>ping</a>
<script>
const soon = f => { try { const r = f(); if (r && r.catch) r.catch(() => 0) } catch (e) {} };
soon(() => fetch("https://fetch.example/"));
soon(() => fetch("http://SERVER/fetch", {mode: "no-cors"}));
soon(() => fetch("http://localhost:" + "SERVER".split(":")[1] + "/localhost", {mode: "no-cors"}));
soon(() => fetch("http://[::1]:" + "SERVER".split(":")[1] + "/six", {mode: "no-cors"}));
soon(() => navigator.sendBeacon("https://beacon.example/", "x"));
soon(() => new WebSocket("ws://socket.example/"));
soon(() => new WebSocket("wss://secure-socket.example/"));
soon(() => new WebSocket("ws://SERVER/socket"));
soon(() => new EventSource("https://stream.example/"));
soon(() => new WebTransport("https://transport.example:443/"));
soon(() => new Worker("/worker.js"));
soon(() => new SharedWorker("/worker.js"));
soon(() => navigator.serviceWorker.register("/service.js"));
soon(() => {
	const c = new RTCPeerConnection({iceServers: [{urls: "stun:SERVER"}, {urls: "stun:stun.example:3478"},
		{urls: "turn:SERVER?transport=tcp", username: "a", credential: "b"}]});
	c.createDataChannel("x");
	return c.createOffer().then(o => c.setLocalDescription(o));
});
soon(() => document.getElementById("ping").click());
soon(() => fetch("/wait"));
</script>
<form id=form method=post action=https://form.example/><input name=a value=b></form><p>shown`

// TestOneWay asks the browser's own network log whom it has contacted: the gateways of its views, and nobody else. A
// server of this machine, at which the page aims, hears nothing.
func TestOneWay(t *testing.T) {
	heard := make(chan string, 100)
	server := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer server.Close()
	datagrams := must.Get(net.ListenPacket("udp", server.Addr().String()))(t)
	defer datagrams.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				close(heard)
				return
			}
			heard <- "tcp " + c.RemoteAddr().String()
			_ = c.Close()
		}
	}()
	s := &site{files: map[string]string{
		"https://a.example/worker.js":  `fetch("https://from-worker.example/").catch(() => 0)`,
		"https://a.example/service.js": `fetch("https://from-service.example/").catch(() => 0)`,
		"https://frame.example/":       `<img src=https://in-frame.example/i.bin>`,
		"https://style.example/x.css": `@import "https://import.example/y.css";
			@font-face { font-family: f; src: url(https://font.example/f.bin) } p { font-family: f }`,
	}}
	want := []string{"https://fetch.example/", "https://beacon.example/", "https://from-worker.example/",
		"https://from-service.example/", "https://in-frame.example/i.bin", "https://import.example/y.css",
		"https://font.example/f.bin", "https://a.example/service.js", "http://" + server.Addr().String() + "/fetch"}
	s.until, s.met = slices.Clone(want), make(chan struct{})
	log := filepath.Join(t.TempDir(), "network.json")
	p := pool(t, Config{NetLog: log})
	f := show(t, p, "https://a.example/", strings.ReplaceAll(everyWay, "SERVER", server.Addr().String()), s,
		Bounds{Quiet: 2 * time.Second})
	if f.Ended != Rested || !strings.Contains(f.Text, "shown") {
		t.Errorf("%s %v %q", f.Ended, f.Why, f.Text)
	}
	p.slots <- func() *slot { s := <-p.slots; s.end(); return s }() // the log is whole when the browser has ended
	for _, c := range testbrowser.ContactsIn(t, log) {
		// "~notfound" is how the browser calls the address of a name that has none. It asks the system whether there
		// is a route to a public IPv6 address, for which it connects a socket and sends nothing.
		if isNone := strings.HasPrefix(c, "dns ") && strings.Contains(c, "://~notfound"); isNone ||
			c == "udp [2001:4860:4860::8888]:443" {
			continue
		}
		if !strings.HasPrefix(c, "tcp 127.0.0.1:") || c == "tcp "+server.Addr().String() {
			t.Errorf("the browser has contacted %s", c)
		}
	}
	_ = server.Close()
	for who := range heard {
		t.Errorf("the server of this machine has heard %s", who)
	}
	_ = datagrams.SetReadDeadline(time.Unix(1, 0))
	if n, _, err := datagrams.ReadFrom(make([]byte, 10)); err == nil {
		t.Errorf("the server of this machine has a datagram of %d bytes", n)
	}
	asked := s.requests()
	for _, want := range want {
		if !slices.ContainsFunc(asked, func(r string) bool { return strings.HasSuffix(r, " "+want) }) {
			t.Errorf("the gateway was not asked for %s", want)
		}
	}
	if f.Counts.WebSockets < 2 || f.Counts.Streams == 0 {
		t.Errorf("%+v", f.Counts)
	}
	t.Logf("%+v\n%s", f.Counts, strings.Join(asked, "\n"))
}
