package node_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/replay"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func (s *stage) Captures(_ context.Context, q *pb.CapturesRequest) (*pb.CapturesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprint(q.Match, " ", q.Url, " ", string(q.After)))
	r := &pb.CapturesResponse{Key: "key"}
	for i, u := range slices.Sorted(maps.Keys(s.archive)) {
		if strings.HasPrefix(u, q.Url) {
			r.Captures = append(r.Captures, &pb.Capture{Agent: "a2", Url: u, Status: 200, Mime: "text/html" + s.evil,
				Time: timestamppb.New(time.Unix(1.7e9, 0)), Length: 2345, File: "f.warc.gz" + s.evil, Offset: int64(i)})
		}
	}
	if len(q.After) == 0 && len(r.Captures) > 0 {
		r.Next = []byte("second")
		r.Silent = []*pb.Answer{{Agent: "a3", Error: "no answer" + s.evil}}
	}
	return r, nil
}

func (s *stage) Record(_ context.Context, q *pb.RecordRequest) (*pb.RecordResponse, error) {
	return &pb.RecordResponse{Status: 200, Size: 1234, BodyFile: q.File,
		Warc: []*pb.HeaderField{{Name: "WARC-Type", Value: "response" + s.evil},
			{Name: "WARC-Record-ID", Value: "<urn:uuid:1>"}},
		Http: []*pb.HeaderField{{Name: "Server" + s.evil, Value: "Apache" + s.evil}}}, nil
}

// pages serves the archived pages of the stage.
func (s *stage) pages() http.Handler {
	return replay.NewPlain(replay.PlainConfig{Path: "/archive/", Valid: func(key string) bool { return key == "key" },
		Open: func(_ context.Context, u weburl.URL, _ time.Time) (*captures.Message, bool, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.read == nil {
				s.read = map[string]int{}
			}
			s.read[u.String()]++
			text, ok := s.archive[u.String()]
			head, body, _ := strings.Cut(text, "\n\n")
			m := &captures.Message{Status: 200, Body: strings.NewReader(body), Size: int64(len(body))}
			for line := range strings.Lines(head) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				if m.Header = append(m.Header, message.Field{Name: name, Value: value}); name == "Location" {
					m.Status = 302
				}
			}
			return m, ok, nil
		}})
}

const picture = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><script>top.hacked = 7</script>` +
	`<rect width="40" height="30" fill="#a33"/></svg>`

// hostile is a page that tries to reach the console, the agent's calls, and other servers.
const hostile = `<!doctype html><html><head><title>Hostile</title>
<base href="http://evil.invalid/"><base href="http://a.example/">
<meta http-equiv="refresh" content="0;url=/orbweaver.operator.v1.Operator/Status">
<meta http-equiv="Content-Security-Policy" content="default-src * 'unsafe-inline'">
<link rel="stylesheet" href="http://a.example/s.css"><link rel="dns-prefetch" href="http://evil.invalid/">
<link rel="preconnect" href="http://evil.invalid/"><link rel="prefetch" href="http://evil.invalid/p">
<script>document.title = 'ran'; top.hacked = 1; top.location = '/?moved';
fetch('/orbweaver.operator.v1.Operator/Stop', {method: 'POST',
headers: {'Content-Type': 'application/json'}, body: '{}'})
</script><script src="http://a.example/x.js"></script></head>
<body onload="top.hacked = 2"><p id="here">archived text</p>
<img id="pic" src="http://a.example/pic.svg" onload="top.hacked = 3">
<img src="http://evil.invalid/i" onerror="top.hacked = 4">
<img src="/orbweaver.operator.v1.Operator/Stop?connect=v1&encoding=json&message=%7B%7D">
<iframe src="/session"></iframe><iframe srcdoc="<script>top.hacked = 5</script>"></iframe>
<object data="http://evil.invalid/o"></object><embed src="/"><svg onload="top.hacked = 6"></svg>
<form id="form" method="post" action="/orbweaver.operator.v1.Operator/Stop" target="_top">
<button id="go">go</button></form>
<a id="api" href="/orbweaver.operator.v1.Operator/Stop" target="_top">stop</a>
<a id="script" href="javascript:top.hacked = 8">script</a>
<a id="next" href="http://a.example/next" target="_blank">next</a>
<p style="background: url(http://evil.invalid/b)">x</p></body></html>`

func hostileStage() *stage {
	return &stage{archive: map[string]string{
		"http://a.example/": "Content-Type: text/html\nSet-Cookie: orbweaver=x\n\n" + hostile,
		"http://a.example/s.css": "Content-Type: text/css\n\n#here { color: rgb(1, 2, 3); " +
			"background: url(http://evil.invalid/c) }",
		"http://a.example/x.js":    "Content-Type: text/javascript\n\ntop.hacked = 9",
		"http://a.example/pic.svg": "Content-Type: image/svg+xml\n\n" + picture,
		"http://a.example/next":    "Content-Type: text/html\n\n<p id=here>the next page</p>",
		"http://a.example/moved":   "Location: /next\n\n",
		"http://a.example/f.bin":   "Content-Type: application/octet-stream\n\nbytes",
	}}
}

// A page is found, and read with its record beside it.
func (s *stage) reading(t *testing.T, b *testbrowser.Browser) {
	login(b, "look") // a reader reads
	sizes(b, func(phone bool) {
		b.Run("location.hash = 'overview'")
		b.Run("location.hash = 'archive'")
		b.Click("#archive-url")
		b.Type("http://a.example/")
		b.Key("Enter")
		b.Wait("document.querySelectorAll('#captures tbody tr').length == 7 && " +
			fmt.Sprintf(text, "captures-found", "7 captures in ") + " && " +
			fmt.Sprintf(text, "captures-found", " ms, and more; a3 does not answer"))
		b.Click("#later")
		b.Wait("!document.getElementById('earlier').hidden && document.getElementById('later').hidden")
		b.Click("#captures tbody tr:first-child button")
		b.Wait(fmt.Sprintf(text, "record", "WARC-Record-ID") + " && " + fmt.Sprintf(text, "record", "Apache"))
		b.WaitFrame("/archive/key/", "document.getElementById('here')?.textContent == 'archived text' && "+
			"document.getElementById('pic').naturalWidth == 40 && "+
			"getComputedStyle(document.getElementById('here')).color == 'rgb(1, 2, 3)'")
		if phone && b.Text("document.documentElement.scrollWidth > innerWidth") != "false" {
			t.Error("the page and its record are wider than the screen")
		}
		b.ClickFrame("/archive/key/", "#next")
		b.WaitFrame("/archive/key/", "document.getElementById('here')?.textContent == 'the next page'")
		b.Wait("!document.getElementById('moved').hidden")
		b.Click("#moved button")
		b.WaitFrame("/archive/key/", "document.getElementById('here')?.textContent == 'archived text'")
		b.Wait("document.getElementById('moved').hidden")
	})
	b.Run("document.querySelector('#archive-match').value = 'CAPTURE_MATCH_HOST'")
	b.Run("document.querySelector('#archive-url').value = 'http://nowhere.example/'")
	b.Click("#archive-find")
	b.Wait(fmt.Sprintf(text, "captures-found", "Nothing of this is archived"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.asked[len(s.asked)-1]; got != "CAPTURE_MATCH_HOST http://nowhere.example/ " {
		t.Errorf("asked %q", got)
	}
}

// An archived page cannot script, refresh, post or call, in the frame of the console and alone in a tab.
func TestConsoleArchiveAttack(t *testing.T) {
	testtier.OnlySoak(t, "a browser takes long")
	s := hostileStage()
	b, url := s.open(t)
	login(b, "secret")
	b.Run("location.hash = 'archive'")
	b.Click("#archive-url")
	b.Type("http://a.example/")
	b.Key("Enter")
	b.Click("#captures tbody tr:first-child button")
	const loaded = "document.getElementById('pic')?.naturalWidth == 40"
	b.WaitFrame("/archive/key/", loaded)
	for _, id := range []string{"#go", "#script"} {
		b.ClickFrame("/archive/key/", id)
	}
	// The frame has no origin, and so no cookie and no storage of the console.
	for script, want := range map[string]string{
		"window.origin": "null", "document.title": "Hostile",
		"(() => { try { return document.cookie } catch (e) { return e.name } })()":               "SecurityError",
		"(() => { try { return top.document.title } catch (e) { return e.name } })()":            "SecurityError",
		"(() => { try { return localStorage.length } catch (e) { return e.name } })()":           "SecurityError",
		"document.querySelectorAll('[target], base[href], meta[http-equiv*=Security i]').length": "0",
	} {
		if got := b.TextFrame("/archive/key/", script); got != want {
			t.Errorf("in the frame %s is %s, want %s", script, got, want)
		}
	}
	// Even code in the frame cannot call: the policy permits no connection, and the browser sends no cookie.
	b.WaitFrame("/archive/key/", "(window.calls ??= (fetch('/orbweaver.operator.v1.Operator/Stop', {method: 'POST', "+
		"body: '{}'}).then(() => { window.called = 'sent' }, () => { window.called = 'refused' }), 1)) && "+
		"window.called == 'refused'")
	b.ClickFrame("/archive/key/", "#api") // it is a page that the archive lacks
	b.WaitFrame("/archive/key/", "document.body.innerText.includes('Not in this archive')")
	b.Wait("window.hacked === undefined && location.pathname == '/' && location.search == '' && " +
		"document.title.startsWith('Archive')")

	b.Go(url + "archive/key/20260101000000?u=http%3A%2F%2Fa.example%2F") // alone, with the login of the console
	b.Wait(loaded + " && window.origin == 'null' && document.title == 'Hostile'")
	b.Click("#go")
	b.Wait("window.hacked === undefined && document.getElementById('here').textContent == 'archived text'")
	for u, want := range map[string]string{"http://a.example/moved": "the next page",
		"http://a.example/f.bin": "A file",
		"http://a.example/none":  "Not in this archive", "mailto:x": "not the address"} {
		b.Go(url + "archive/key/20260101000000?u=" + strings.ReplaceAll(u, "/", "%2F"))
		b.Wait("document.body.innerText.includes('" + want + "') && window.origin == 'null'")
	}
	b.Go(url + "archive/other/20260101000000?u=http%3A%2F%2Fa.example%2F")
	b.Wait("document.body.innerText.includes('too old') && window.origin == 'null'")
	b.Go(url) // the login stands
	b.Wait("document.getElementById('role').innerText == 'operator'")

	own := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	for _, c := range b.Contacts() {
		if strings.HasPrefix(c, "tcp ") && c != "tcp "+own || strings.Contains(c, "evil") {
			t.Errorf("the browser contacts %s", c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) > 0 || s.read["http://a.example/x.js"] > 0 || s.read["http://a.example/s.css"] == 0 {
		t.Errorf("calls %q, pages read %v", s.calls, s.read)
	}
}

// The policy of a page, and what it needs to be read.
func TestConsoleArchiveHeaders(t *testing.T) {
	h := hostileStage().pages()
	for path, want := range map[string]int{"/archive/key/20260101000000?u=http://a.example/": 200, "/archive/": 403,
		"/archive/key/x?u=http://a.example/": 400, "/archive/key/20260101000000": 400,
		"/archive//20260101000000": 403} {
		r := must.Get(http.NewRequest("GET", "http://localhost:80"+path, nil))(t)
		w := newRecorderOf(h, r)
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != want || !strings.HasPrefix(policy, "sandbox; default-src 'none'; ") ||
			strings.Contains(policy, "script") || strings.Contains(policy, "allow") ||
			w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
	}
}
