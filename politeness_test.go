package orbweaver_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// With DelayFactor a host rests for a multiple of the time that its responses take.
func TestDelayFactor(t *testing.T) {
	const slow, factor = 30 * time.Millisecond, 4
	var mu sync.Mutex // guards ended and gaps
	var ended time.Time
	var gaps []time.Duration
	o := local(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !ended.IsZero() {
			gaps = append(gaps, time.Since(ended))
		}
		time.Sleep(slow)
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
		} else {
			html(w, "home", "/1", "/2")
		}
		ended = time.Now()
	})+"/")
	o.Delay, o.DelayFactor, o.DelayMax = time.Millisecond, factor, time.Second
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Pages != 3 {
		t.Fatalf("%v, %+v", err, res)
	}
	if len(gaps) != 3 || slices.Min(gaps) < factor*slow {
		t.Errorf("gaps of %v, want 3 of at least %s", gaps, factor*slow)
	}
}

// Rate bounds the requests a second.
func TestRateOption(t *testing.T) {
	c := &chain{n: 9}
	o := local(t, serve(t, c.ServeHTTP)+"/0")
	o.Rate = "20/s"
	began := time.Now()
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Pages != 9 {
		t.Fatalf("%v, %+v", err, res)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("9 pages took %s", took)
	}
}

// ExcludeFile keeps the crawl from hosts and URLs. A later call without it visits them.
func TestExcludeFileOption(t *testing.T) {
	o := local(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		html(w, r.URL.Path, "/secret/1", "/open/1")
	})+"/")
	o.ExcludeFile = filepath.Join(t.TempDir(), "blacklist.txt")
	must.Do(t, os.WriteFile(o.ExcludeFile, []byte("*.example.org\n/secret/ # not for us\n"), 0o600))
	var got []string
	o.OnPage = paths(&got)
	for _, want := range [][]string{{"/", "/open/1"}, {"/secret/1"}} {
		got = nil
		if res, err := orbweaver.Crawl(t.Context(), o); err != nil {
			t.Fatalf("%v, %+v", err, res)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("exclude file %q: pages %q, want %q", o.ExcludeFile, got, want)
		}
		o.ExcludeFile = ""
	}
}

// Be gentle with a site: rest after each response for five times as long as it took, and leave a part of the site out.
func ExampleOptions_delayFactor() {
	site, dir := exampleSite()
	defer site.Close()
	defer os.RemoveAll(dir)

	blacklist := filepath.Join(dir, "blacklist.txt")
	if err := os.WriteFile(blacklist, []byte("/news/\n*.example.net\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	res, err := orbweaver.Crawl(context.Background(), orbweaver.Options{
		Dir:         filepath.Join(dir, "crawl"),
		Seeds:       []string{site.URL},
		ExcludeFile: blacklist,
		Rate:        "100/s",
		Delay:       time.Millisecond, DelayFactor: 5, DelayMax: time.Minute,
		AllowPrivate: true, // The site is on this machine.
	})
	fmt.Println(res.Pages, err)
	// Output: 4 <nil>
}
