package crawl

import (
	"bytes"
	"crypto/tls"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page that another agent has fetched comes with its request, its times, and how it crossed the network.
func TestReceive(t *testing.T) {
	mem := testdisk.NewMem()
	w, _, err := warc.Open(warc.Config{Dir: "/c", FS: mem})
	must.Do(t, err)
	const url, head = "https://a.example/", "HTTP/1.1 200 OK\r\n\r\n"
	over := warc.Transport{HTTP: "http/1.1", TLS: tls.VersionTLS13, Cipher: tls.TLS_AES_128_GCM_SHA256}
	at := must.Get(w.Write(&warc.Exchange{URL: url, Began: time.Unix(1e9, 5e6), Over: over, HTTP: true,
		HeadLen: len(head), Request: []byte("GET / HTTP/1.1\r\n\r\n"), Response: warc.Bytes(head + "body"),
		Metadata: []warc.Field{{Name: "fetchTimeMs", Value: "7"}}}))(t)
	must.Do(t, w.Close())
	b := must.Get(disk.ReadFile(mem, filepath.Join("/c/archive", at.File), 1<<20))(t)
	f := must.Get(fetch.New(fetch.Config{}))(t)
	defer f.Close()
	r := must.Get(receive(f, weburl.MustParse(url), bytes.NewReader(b[at.Offset:at.End])))(t)
	defer r.Release()
	want := fetch.Secure{Version: over.TLS, Cipher: over.Cipher}
	if r.Secure != want || r.Proto != "HTTP/1.1" || r.Duration != 7*time.Millisecond || len(r.Request) == 0 ||
		!r.Began.Equal(time.Unix(1e9, 5e6)) {
		t.Errorf("got %+v", r)
	}
}
