package replay

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestMissingOriginal: a page whose content is in the archive of an earlier crawl is shown with that archive. Without
// it, a notice names the record.
func TestMissingOriginal(t *testing.T) {
	const text = "<p>the content of an earlier crawl"
	old := testarchive.Write(t, map[string]string{"http://b.example/": "text/html\n" + text})
	dir := t.TempDir()
	w, _, err := warc.Open(warc.Config{Dir: dir})
	must.Do(t, err)
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
	x := warc.Exchange{URL: "http://a.example/", Began: testarchive.Began.Add(time.Hour), HTTP: true,
		HeadLen: len(head), Response: warc.Bytes(head + text),
		Same: &warc.Original{URL: "http://b.example/", Date: testarchive.Began}}
	must.Get(w.Write(&x))(t)
	must.Do(t, w.Close())
	must.Do(t, warc.BuildIndex(nil, dir))
	for _, test := range []struct {
		originals []warc.Place
		status    int
		want      []string
	}{
		{nil, 404, []string{"The content is in another archive", "http://b.example/, captured 2026-05-04T03:02:01Z",
			"an earlier crawl has archived it"}},
		{warc.Places(old), 200, []string{text}},
	} {
		s := New(Config{Archive: captures.New(nil, warc.Places(dir), test.originals), Addr: "127.0.0.1:8080",
			Token: "token"})
		host, _ := s.contentHost(weburl.MustParse("http://a.example/"), "20260504040201")
		res := request(s, host+":8080", "/", "Sec-Fetch-Dest", "iframe")
		body := string(must.Get(io.ReadAll(res.Body))(t))
		if res.StatusCode != test.status {
			t.Errorf("status %d, want %d", res.StatusCode, test.status)
		}
		for _, want := range test.want {
			if !strings.Contains(body, want) {
				t.Errorf("the page lacks %q:\n%s", want, body)
			}
		}
	}
}
