package testbrowser

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Only the deadline of the test itself bounds its steps.
func TestDeadline(t *testing.T) {
	end, ok := t.Deadline()
	got := time.Until(deadline(t))
	if most := time.Until(end); ok && (got > most || got < most*9/10) || !ok && got < time.Hour {
		t.Errorf("got %s until the deadline, the test has until %s, %t", got, end, ok)
	}
}

func TestBrowser(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/frame" {
			_, _ = w.Write([]byte(`<p id=p onclick="this.textContent='clicked'">inside</p>`))
			return
		}
		port := r.Host[strings.LastIndexByte(r.Host, ':'):]
		_, _ = w.Write([]byte(`<title>hello</title><iframe src="http://other.localhost` + port + `/frame"></iframe>`))
	}))
	defer web.Close()
	b := Start(t)
	b.Go(web.URL)
	b.Wait("document.title === 'hello'")
	b.Run("document.title = 'changed'")
	if got := b.Text("document.title"); got != "changed" {
		t.Errorf("the title is %q", got)
	}
	b.ClickFrame("other.localhost", "#p")
	if got := b.TextFrame("other.localhost", "document.body.textContent"); got != "clicked" {
		t.Errorf("the frame has the text %q", got)
	}
	if !b.HasFrame("other.localhost") || b.HasFrame("nowhere.localhost") {
		t.Error("wrong frames")
	}
	b.Run("document.querySelector('iframe').remove()")
	b.Until("the frame is gone", func() bool { return !b.HasFrame("other.localhost") })
	if !b.HadFrame("other.localhost") || b.HadFrame("nowhere.localhost") {
		t.Error("wrong frames of the past")
	}
	if got := b.Contacts(); !slices.Contains(got, "tcp "+strings.TrimPrefix(web.URL, "http://")) {
		t.Errorf("the log lacks the server: %q", got)
	}
}

// A frame may change all the time while the browser attaches to it.
func TestBusyFrame(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/frame" {
			_, _ = w.Write([]byte(`<p>x<script>setInterval(() => { document.documentElement.append('x');
				document.documentElement.dataset.x = document.documentElement.lastChild.remove(); }, 1)</script>`))
			return
		}
		port := r.Host[strings.LastIndexByte(r.Host, ':'):]
		_, _ = w.Write([]byte(`<iframe src="http://other.localhost` + port + `/frame"></iframe>`))
	}))
	defer web.Close()
	b := Start(t)
	b.Go(web.URL)
	for range 20 {
		b.WaitFrame("other.localhost", "document.documentElement.dataset.x")
		for id, f := range b.frames {
			f.cancel()
			delete(b.frames, id)
		}
	}
}
