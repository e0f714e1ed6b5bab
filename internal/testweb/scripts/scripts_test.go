package scripts

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts the web and returns a client of it.
func serve(t *testing.T) (*testweb.Web, *http.Client) {
	w := must.Get(testweb.New(testweb.Config{Sites: Sites(), Apps: Apps()}))(t)
	stop := w.Start()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.CAPEM())
	client := &http.Client{Transport: &http.Transport{DialContext: w.DialContext,
		TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		must.Do(t, stop())
	})
	return w, client
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	req := must.Get(http.NewRequest(http.MethodGet, url, nil))(t)
	req.AddCookie(&http.Cookie{Name: "member", Value: "yes"})
	resp := must.Get(c.Do(req))(t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(t))
}

// The document of a page answers 200 without the text of the page, which one of the files that it needs has. Each text
// has a mark of its own.
func TestTruth(t *testing.T) {
	w, client := serve(t)
	seen := map[string]string{}
	pages, filled := 0, 0
	for _, app := range Apps() {
		for _, f := range app.Files {
			if status, body := get(t, client, f); status != http.StatusOK || body == "" {
				t.Errorf("%s: got status %d", f, status)
			}
		}
		for _, p := range app.Pages {
			pages++
			status, body := get(t, client, p.URL)
			if status != http.StatusOK {
				t.Errorf("%s: got status %d", p.URL, status)
			}
			if len(p.Needs) == 0 {
				if app.Name == "plain" != strings.Contains(body, p.Mark) {
					t.Errorf("%s: the document is wrong: %s", p.URL, body)
				}
				continue
			}
			filled++
			if strings.Contains(body, p.Mark) || p.Mark == "" {
				t.Errorf("%s: the document has the text", p.URL)
			}
			found := false
			for _, need := range p.Needs {
				_, data := get(t, client, need)
				found = found || strings.Contains(data, p.Mark)
			}
			if !found {
				t.Errorf("%s: no file has %q", p.URL, p.Mark)
			}
			if other := seen[p.Mark]; other != "" {
				t.Errorf("%s has the mark of %s", p.URL, other)
			}
			seen[p.Mark] = p.URL
		}
	}
	if plain := pages - filled; plain <= filled {
		t.Errorf("%d pages need scripts, and only %d do not", filled, plain)
	}
	for w.Report().Active > 0 { // the web counts a request a moment after its answer
		runtime.Gosched()
	}
	for _, r := range w.Report().Apps {
		if r.Found != r.Pages || r.Filled != r.Pages || r.Loaded != r.Files {
			t.Errorf("%s: %s, missed %q %q %q", r.Name, r, r.Missed, r.Unfilled, r.Unloaded)
		}
	}
}

// The report of a crawl without scripts names the pages that are not filled.
func TestWithoutScripts(t *testing.T) {
	w, client := serve(t)
	get(t, client, "https://"+reactHost+"/")
	get(t, client, "https://"+reactHost+"/api/notices/1.json")
	r := w.Report().Apps[0]
	if r.Found != 1 || r.Filled != 0 || r.Loaded != 1 || len(r.Missed) != int(r.Pages)-1 || len(r.Unfilled) != 1 ||
		len(r.Unloaded) != int(r.Files)-1 {
		t.Errorf("got %+v", r)
	}
}

// The members' list needs the cookie that a script sets, and the server takes the POST of a visit.
func TestMembers(t *testing.T) {
	_, client := serve(t)
	resp := must.Get(client.Get("https://" + reactHost + membersList))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("got status %d without the cookie", resp.StatusCode)
	}
	resp = must.Get(client.Post("https://"+vueHost+"/api/visits", "text/plain", strings.NewReader("/")))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("got status %d for a visit", resp.StatusCode)
	}
}

// The built files are small, and each package whose code is in them has its licence here.
func TestBuilt(t *testing.T) {
	const most = 600_000
	size := int64(0)
	must.Do(t, fs.WalkDir(files, "web", func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			size += must.Get(e.Info())(t).Size()
		}
		return err
	}))
	if size == 0 || size > most {
		t.Errorf("the built files have %d bytes, want at most %d", size, most)
	}
	if found := must.Get(filepath.Glob("licenses/*.txt"))(t); len(found) < 5 {
		t.Errorf("got the licences %q", found)
	}
	for _, f := range []string{"years.js", "anchor.svg"} {
		built, source := must.Get(os.ReadFile("web/cdn/"+f))(t), must.Get(os.ReadFile("source/cdn/"+f))(t)
		if string(built) != string(source) {
			t.Errorf("%s differs from its source: run build.sh --update", f)
		}
	}
}
