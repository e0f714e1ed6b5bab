package stores_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

type env map[string]string

func (e env) LookupEnv(name string) (string, bool) { v, ok := e[name]; return v, ok }

// TestOpenRefuses: what is no store is said.
func TestOpenRefuses(t *testing.T) {
	for where, want := range map[string]string{"": "names no store", "/mnt/x": "names no store",
		"gs://b":        "names no store",
		"file://host/x": "absolute path", "file:x": "absolute path", "file:///no/such/folder": "create the directory",
		"s3://": "names no bucket"} {
		_, err := stores.Open(disk.OS, stores.Place{URL: where, Env: env{}}, object.Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", where, err, want)
		}
	}
}

func check(t *testing.T, where string, e env) (string, bool) {
	t.Helper()
	s := must.Get(stores.Open(disk.OS, stores.Place{URL: where, Env: e}, object.Config{Tries: 2}))(t)
	var b strings.Builder
	usable := must.Get(stores.Print(&b, s, stores.Check(t.Context(), s)))(t)
	if left := must.Get(s.List(t.Context(), "", "", 10))(t); len(left.Objects) > 0 && usable {
		t.Errorf("the check has left %v", left.Objects)
	}
	return b.String(), usable
}

// TestCheck: a folder and a server can be used, and rights that are missing are named.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	text, usable := check(t, "file://"+dir, nil)
	want := "store                   file://" + dir + `/
write                   yes
read a range            yes
list                    yes
list and abort uploads  yes
delete                  yes
create only if absent   yes
the same, in parts      yes
replace by tag          yes
check CRC-32C           yes
tell CRC-32C            yes
`
	if text != want || !usable {
		t.Errorf("usable: %v\n%s\nwant\n%s", usable, text, want)
	}
	backend := s3mem.New()
	must.Do(t, backend.CreateBucket("bucket"))
	fake := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer fake.Close()
	keys := env{"AWS_ENDPOINT_URL": fake.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
	if text, usable := check(t, "s3://bucket/crawls/one", keys); !usable {
		t.Errorf("not usable:\n%s", text)
	}
	forward := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(fake.URL))(t))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(403)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>no s3:DeleteObject</Message></Error>")
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer front.Close()
	keys["AWS_ENDPOINT_URL"] = front.URL
	text, usable = check(t, "s3://bucket/crawls/two", keys)
	if usable ||
		!strings.Contains(text, "\ndelete                  no (delete s3://bucket/crawls/two/.orbweaver-check-") ||
		!strings.Contains(text, "the credentials do not permit this") || !strings.Contains(text, "no s3:DeleteObject") {
		t.Errorf("usable: %v\n%s", usable, text)
	}
}
