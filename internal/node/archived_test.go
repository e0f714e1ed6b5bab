package node

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// What a crawl has written is found and read while its archive file is open.
func TestArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallWeb()
		a := opened(t, w.config(t, testdisk.NewMem()))
		if _, err := a.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		u := weburl.MustParse(w.urls()[0])
		r, err := a.operator.Captures(t.Context(), &pb.CapturesRequest{Url: u.String()})
		if err != nil || len(r.Captures) != 1 || r.Captures[0].Url != u.String() || r.Captures[0].Status != "200" {
			t.Fatalf("captures of %s: %v, %v", u, r, err)
		}
		all, err := a.operator.Captures(t.Context(), &pb.CapturesRequest{Url: u.Host(), Limit: 1000,
			Match: pb.CaptureMatch_CAPTURE_MATCH_HOST})
		if err != nil || len(all.Captures) < 2 {
			t.Errorf("captures of the host: %v, %v", all, err)
		}
		c := r.Captures[0]
		rec, err := a.operator.Record(t.Context(), &pb.RecordRequest{File: c.File, Offset: c.Offset, Most: 5})
		if err != nil || rec.Status != 200 || len(rec.Body) != 5 || !rec.More || len(rec.Warc) < 5 ||
			len(rec.Http) < 1 {
			t.Errorf("record: %v, %v", rec, err)
		}
		for _, q := range []*pb.RecordRequest{{File: "../../state/api.json"}, {File: c.File, Offset: 1 << 40}} {
			if rec, err := a.operator.Record(t.Context(), q); err == nil {
				t.Errorf("%v is read: %v", q, rec)
			}
		}
		m, ok, err := a.openCapture(t.Context(), u, time.Now())
		if err != nil || !ok {
			t.Fatalf("%s: %t, %v", u, ok, err)
		}
		body, err := io.ReadAll(m.Body)
		if err != nil || !strings.HasPrefix(string(body), string(rec.Body)) || len(body) < 6 {
			t.Errorf("the body is %q, %v", body, err)
		}
		none := weburl.MustParse("http://nowhere.example/")
		if _, ok, err := a.openCapture(t.Context(), none, time.Now()); ok || err != nil {
			t.Errorf("a page that is not there: %t, %v", ok, err)
		}

		get := func(key string) *http.Response {
			w := httptest.NewRecorder()
			a.archivedPages().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/archive/"+key+
				"/20260101000000?u="+u.String(), nil))
			return w.Result()
		}
		key := all.Key
		if res := get(key); res.StatusCode != 200 ||
			!strings.HasPrefix(res.Header.Get("Content-Security-Policy"), "sandbox; default-src 'none'; ") {
			t.Errorf("the page: %v", res)
		}
		for _, wrong := range []string{"", "x", key[1:], strings.ToUpper(key)} {
			if res := get(wrong); res.StatusCode != 403 {
				t.Errorf("key %q: %s", wrong, res.Status)
			}
		}
		time.Sleep(archiveKeyTime)
		if res := get(key); res.StatusCode != 200 {
			t.Errorf("after an hour: %s", res.Status)
		}
		time.Sleep(archiveKeyTime)
		if res := get(key); res.StatusCode != 403 {
			t.Errorf("after two hours: %s", res.Status)
		}
	})
}
