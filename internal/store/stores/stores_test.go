package stores_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

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

func check(t *testing.T, where string, e env, options ...string) (string, bool) {
	t.Helper()
	s, found, err := stores.TryOut(t.Context(), disk.OS, stores.Place{URL: where, Env: e, Options: options})
	must.Do(t, err)
	var b strings.Builder
	usable := must.Get(stores.Print(&b, s, found))(t)
	left := must.Get(s.List(t.Context(), "", "", 10))(t).Objects
	left = slices.DeleteFunc(left, func(i object.Info) bool { return strings.HasSuffix(i.Key, "/locked") })
	if len(left) > 0 && usable {
		t.Errorf("the check has left %v", left)
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

// TestOptions: what cannot be an option is said before the first request.
func TestOptions(t *testing.T) {
	for text, want := range map[string]string{
		"rot13":                       "the options are class, encryption, kms-key, lock, path-style, retain",
		"encryption":                  "encryption=VALUE",
		"encryption=rot13":            "give AES256 or aws:kms",
		"kms-key=k":                   "aws:kms",
		"lock=compliance":             "such as retain=30d",
		"lock=never retain=1d":        "give GOVERNANCE or COMPLIANCE",
		"lock=compliance retain=1h":   "a number of days",
		"lock=compliance retain=-1d":  "a number of days",
		"lock=compliance retain=1e9d": "a number of days",
		"retain=30d":                  "needs lock=governance",
		"path-style=maybe":            "path-style=true",
	} {
		p := stores.Place{URL: "s3://bucket", Env: env{}, Options: strings.Fields(text)}
		if err := p.CheckOptions(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
		if _, err := stores.Open(disk.OS, p, object.Config{}); err == nil {
			t.Errorf("%s: the store was opened", text)
		}
	}
	p := stores.Place{URL: "file:///tmp", Options: []string{"class=STANDARD_IA"}}
	if err := p.CheckOptions(); err == nil || !strings.Contains(err.Error(), "a mounted directory has no options") {
		t.Errorf("a directory: error %v", err)
	}
}

// TestCheckOptions: the check shows whether a store does what the options ask for. It locks an object for a short time.
func TestCheckOptions(t *testing.T) {
	backend := s3mem.New()
	must.Do(t, backend.CreateBucket("bucket"))
	fake := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer fake.Close()
	forward := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(fake.URL))(t))
	ignores := true // what the headers ask for
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const until = "X-Amz-Object-Lock-Retain-Until-Date"
		if at, err := time.Parse(time.RFC3339, r.Header.Get(until)); err == nil && time.Until(at) > 2*time.Minute {
			t.Errorf("the check locks an object for %v", time.Until(at))
		}
		if ignores {
			for _, name := range []string{"X-Amz-Server-Side-Encryption", "X-Amz-Object-Lock-Mode", until} {
				r.Header.Del(name)
			}
		}
		forward.ServeHTTP(w, r)
	}))
	defer front.Close()
	options := []string{"encryption=AES256", "lock=governance", "retain=30d"}
	keys := env{"AWS_ENDPOINT_URL": front.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
	text, usable := check(t, "s3://bucket/one", keys, options...)
	if usable || !strings.Contains(text, "encrypt, AES256         no (the store was asked to") ||
		!strings.Contains(text, "lock, GOVERNANCE        no (the store was asked to") {
		t.Errorf("usable: %v\n%s", usable, text)
	}
	ignores = false
	if text, usable := check(t, "s3://bucket/two", keys, options...); !usable {
		t.Errorf("not usable:\n%s", text)
	}
}
