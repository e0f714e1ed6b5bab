package record_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/walk"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/record"
	"github.com/orbweaver/orbweaver/internal/warc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a web until the test ends.
func serve(t *testing.T, cfg testweb.Config) *testweb.Web {
	t.Helper()
	w := must.Get(testweb.New(cfg))(t)
	stop := w.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// hosts are the hosts of the web that is recorded.
var hosts = []string{"a.example", "b.example", "c.a.example"}

// town returns a web of a few hundred pages whose responses use many features of HTTP.
func town() (sites []testweb.Site) {
	for i, name := range hosts {
		h := func(rw http.ResponseWriter, req *http.Request) {
			var n int
			if _, err := fmt.Sscanf(req.URL.Path, "/%d", &n); err != nil && req.URL.Path != "/" || n > 60 {
				http.NotFound(rw, req)
				return
			}
			page := fmt.Sprintf("<title>%d</title><a href=/%d>a</a> <a href=/%d>a</a> "+
				"<a href='http://%s/%d?x=%%7e'>b</a> %s",
				n, n+1, n+5, hosts[(i+1)%3], n*2+5, strings.Repeat("text ", n*100))
			switch n % 6 {
			case 1:
				http.Redirect(rw, req, fmt.Sprintf("/%d", n+7), http.StatusFound)
			case 2: // chunked
				io.WriteString(rw, page[:len(page)/2])
				http.NewResponseController(rw).Flush()
				io.WriteString(rw, page[len(page)/2:])
			case 3: // the end of the connection ends the body
				rw.Header().Set("Transfer-Encoding", "identity")
				io.WriteString(rw, page)
			case 4:
				rw.WriteHeader(http.StatusGone)
				io.WriteString(rw, "gone")
			default:
				io.WriteString(rw, page)
			}
		}
		sites = append(sites, testweb.Site{
			Host: name, Robots: "User-agent: *\nDisallow: /13\n", Handler: http.HandlerFunc(h),
		})
	}
	return sites
}

// explore walks a web from its seed.
func explore(t *testing.T, w *testweb.Web) *walk.Result {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CAPEM())
	res := must.Get(walk.Walk(context.Background(), walk.Config{
		Seeds: []string{"http://a.example/"}, DialContext: w.DialContext, RootCAs: pool,
		Scope: func(*url.URL) bool { return true },
	}))(t)
	return res
}

// raw returns all bytes that the server sends for an http URL.
func raw(t *testing.T, w *testweb.Web, u string) []byte {
	t.Helper()
	at, err := url.Parse(u)
	must.Do(t, err)
	c := must.Get(w.DialContext(context.Background(), "tcp", at.Host+":80"))(t)
	defer c.Close()
	io.WriteString(c, "GET "+at.RequestURI()+" HTTP/1.1\r\nHost: "+at.Host+"\r\nConnection: close\r\n\r\n")
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%s: %v", u, err)
	}
	return b
}

// TestWebAgain walks a web, records it, serves the recording and walks that. Each page is the same, and each response
// has the same bytes.
func TestWebAgain(t *testing.T) {
	live := serve(t, testweb.Config{Sites: town(), Gzip: true})
	was := explore(t, live)

	urls := slices.Sorted(maps.Keys(was.Pages))
	for _, h := range live.Hosts() {
		urls = append(urls, "http://"+h+"/robots.txt")
	}
	dir := t.TempDir()
	ar, _, err := warc.Open(warc.Config{Dir: dir})
	must.Do(t, err)
	responses := map[string][]byte{}
	for _, u := range urls {
		if !strings.HasPrefix(u, "http://") || was.Pages[u].Err != "" {
			continue
		}
		b := raw(t, live, u)
		responses[u] = b
		must.Get(ar.Write(&warc.Exchange{URL: u, Began: time.Now(), Response: warc.Bytes(b), HTTP: true,
			HeadLen: bytes.Index(b, []byte("\r\n\r\n")) + 4}))(t)
	}
	must.Do(t, ar.Close())

	files := must.Get(filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz")))(t)
	rec := must.Get(record.Open(files, record.Config{}))(t)
	t.Cleanup(func() { rec.Close() })
	again := serve(t, testweb.Config{Origin: rec})
	is := explore(t, again)
	if d := cmp.Diff(was, is); d != "" || len(was.Pages) < 200 {
		t.Errorf("%d pages at first, %d from the recording: %s", len(was.Pages), len(is.Pages), d)
	}
	for u, b := range responses {
		if got := raw(t, again, u); !bytes.Equal(got, b) {
			t.Errorf("%s:\n got %.300q\nwant %.300q", u, got, b)
		}
	}
	if s := rec.Summary(); s.URLs != int64(len(responses)) || s.Damaged != 0 || len(s.Skipped) != 0 || s.Revisits == 0 {
		t.Errorf("got %+v, want %d URLs, some of them revisits", s, len(responses))
	}
	if n := rec.Unread(); n != 0 {
		t.Errorf("%d responses could not be read", n)
	}
}
