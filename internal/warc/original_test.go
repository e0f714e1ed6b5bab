package warc

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Original tells where the payload of a record is: in itself, or in the record to which it refers.
func TestOriginalOf(t *testing.T) {
	own := Original{URL: "http://a.example/", Date: time.Date(2024, 5, 6, 7, 8, 9, 12e6, time.UTC),
		ID: [16]byte{15: 0x12}}
	const id = "<urn:uuid:00000000-0000-0000-0000-000000000012>"
	for _, c := range []struct {
		kind, more string
		want       Original
	}{
		{"response", "", own},
		{"revisit", "WARC-Refers-To: <urn:uuid:00000000-0000-0000-0000-000000000034>\r\n" +
			"WARC-Refers-To-Target-URI: http://b.example/\r\nWARC-Refers-To-Date: 2023-01-02T03:04:05Z\r\n",
			Original{URL: "http://b.example/", Date: time.Date(2023, 1, 2, 3, 4, 5, 0, time.UTC),
				ID: [16]byte{15: 0x34}}},
		{"revisit", "WARC-Refers-To: x\r\nWARC-Refers-To-Date: 2023-01-02T03:04:05Z\r\n",
			Original{URL: "http://a.example/", Date: time.Date(2023, 1, 2, 3, 4, 5, 0, time.UTC)}},
		{"revisit", "WARC-Refers-To-Target-URI: http://b.example/\r\n", Original{}}, // no date
	} {
		rec, err := NewReader(strings.NewReader("WARC/1.1\r\nWARC-Type: " + c.kind + "\r\nWARC-Record-ID: " + id +
			"\r\nWARC-Date: 2024-05-06T07:08:09.012Z\r\nWARC-Target-URI: http://a.example/\r\n" + c.more +
			"Content-Length: 0\r\n\r\n\r\n\r\n")).Next()
		must.Do(t, err)
		if got, ok := rec.Original(); got != c.want || ok != (c.want != Original{}) {
			t.Errorf("%s, %q: %+v, %v, want %+v", c.kind, c.more, got, ok, c.want)
		}
	}
}

// TestDigestLabel: the label of a digest may have any case (ISO 28500, 5.8), and that of a revisit may differ from that
// of its original.
func TestDigestLabel(t *testing.T) {
	record := func(kind, url, label, more, content string) string {
		return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-%012d>\r\n"+
			"WARC-Date: 2024-05-06T07:08:09Z\r\nWARC-Target-URI: %s\r\n"+
			"WARC-Payload-Digest: %s:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n"+
			"Content-Type: application/http; msgtype=response\r\n%sContent-Length: %d\r\n\r\n%s\r\n\r\n",
			kind, len(url), url, label, more, len(content), content)
	}
	for _, labels := range [][2]string{{"sha1", "sha1"}, {"sha1", "SHA1"}, {"SHA1", "sha1"}, {"Sha1", "SHA1"}} {
		text := record("response", "http://a.example/", labels[0], "",
			"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhere")
		at := len(text)
		text += record("revisit", "http://a.example/again", labels[1],
			"WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"+
				"WARC-Refers-To-Target-URI: http://a.example/\r\n",
			"HTTP/1.1 200 OK\r\n\r\n")
		r := strings.NewReader(text)
		rec, err := At(r, int64(at))
		must.Do(t, err)
		original, err := FindOriginal(r, rec.Reference())
		if err != nil {
			t.Errorf("original %s, revisit %s: %v", labels[0], labels[1], err)
			continue
		}
		body, err := original.Payload(t.Context())
		must.Do(t, err)
		if b, err := io.ReadAll(body); string(b) != "here" || err != nil {
			t.Errorf("payload of the original: got %q, %v, want \"here\"", b, err)
		}
	}
}
