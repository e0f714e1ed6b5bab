package replay_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/replay"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A text of a feed that is no URL stays.
func TestPlainFeed(t *testing.T) {
	const feed = `<rss><link>http://b.example/</link><link>12 apples</link><enclosure url="e"/></rss>`
	const want = `<rss><link>/p/k/20260131000000?u=http%3A%2F%2Fb.example%2F</link><link>12 apples</link>` +
		`<enclosure url="/p/k/20260131000000?u=http%3A%2F%2Fa.example%2Fe"/></rss>`
	s := replay.NewPlain(replay.PlainConfig{Path: "/p/", Valid: func(string) bool { return true },
		Open: func(context.Context, weburl.URL, time.Time) (*captures.Message, bool, error) {
			return &captures.Message{Status: 200, Body: strings.NewReader(feed), Size: int64(len(feed)),
				Header: message.Header{{Name: "Content-Type", Value: "application/rss+xml"}}}, true, nil
		}})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/p/k/20260131000000?u=http://a.example/feed", nil))
	if got := w.Body.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
