package hostile

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T) (*testweb.Web, *http.Client) {
	w := must.Get(testweb.New(testweb.Config{Sites: Sites(), Apps: Apps()}))(t)
	stop := w.Start()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.CAPEM())
	client := &http.Client{Transport: &http.Transport{DialContext: w.DialContext, DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		must.Do(t, stop())
	})
	return w, client
}

func get(t *testing.T, c *http.Client, url string, header ...string) (*http.Response, string) {
	req := must.Get(http.NewRequest(http.MethodGet, url, nil))(t)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(c.Do(req))(t)
	defer resp.Body.Close()
	return resp, string(must.Get(io.ReadAll(resp.Body))(t))
}

// Each page answers with what it does and with its link, and the home page links to it.
func TestPages(t *testing.T) {
	w, client := serve(t)
	_, home := get(t, client, Seeds()[0])
	for _, name := range names() {
		if !strings.Contains(home, `href="`+base(name)+`/`+name+`"`) {
			t.Errorf("no link to %s", name)
		}
		resp, body := get(t, client, base(name)+"/"+name)
		if what, _ := page(name); resp.StatusCode != http.StatusOK || what == "" ||
			!strings.Contains(body, `href="/fine/`+name+`"`) || strings.Contains(body, "PORT") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		get(t, client, base(name)+"/fine/"+name)
	}
	for _, name := range worked {
		if what, _ := page(name); what == "" {
			t.Errorf("there is no page %s", name)
		}
		get(t, client, base(name)+"/worked/"+name)
	}
	if r := w.Report().Apps[0]; r.Found != r.Pages {
		t.Errorf("%s: %q", r, r.Missed)
	}
	if resp, _ := get(t, client, Seeds()[0]+"none/"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("got status %d for a page that there is not", resp.StatusCode)
	}
}

// The files that the pages ask for are as the pages expect them.
func TestAnswers(t *testing.T) {
	_, client := serve(t)
	base := Seeds()[0]
	resp, body := get(t, client, base+"cached.txt", "If-None-Match", `"1"`)
	if resp.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("got status %d for a file that has not changed", resp.StatusCode)
	}
	resp, body = get(t, client, base+"sound.wav", "Range", "bytes=0-3")
	if resp.StatusCode != http.StatusPartialContent || body != "RIFF" {
		t.Errorf("got status %d, %q for a part", resp.StatusCode, body)
	}
	resp, body = get(t, client, base+"bodies/gzip")
	text := must.Get(io.ReadAll(must.Get(gzip.NewReader(strings.NewReader(body)))(t)))(t)
	if !bytes.Equal(text, codedText) || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %q", text)
	}
	const origin = "http://" + host
	resp, body = get(t, client, "http://"+filesHost+"/cors", "X-Asked", "yes", "Origin", origin)
	if body != "allowed" || resp.Header.Get("Access-Control-Allow-Origin") != origin {
		t.Errorf("got %q, %v", body, resp.Header)
	}
	resp, _ = get(t, client, "http://"+filesHost+"/refused", "X-Asked", "yes")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("got status %d", resp.StatusCode)
	}
	req := must.Get(http.NewRequest(http.MethodGet, "http://"+socketHost+"/", nil))(t)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	open := must.Get(client.Do(req))(t)
	defer open.Body.Close()
	first := make([]byte, 10)
	must.Get(io.ReadFull(open.Body, first))(t)
	accept := open.Header.Get("Sec-WebSocket-Accept")
	if accept != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || string(first) != "\x81\x08and more" {
		t.Errorf("got %v, %q", open.Header, first)
	}
}
