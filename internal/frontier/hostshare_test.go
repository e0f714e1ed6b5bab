package frontier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// shareCrawl crawls pages of a large host and of others at a rate, and returns the times of the large host's requests
// and of all.
func shareCrawl(t *testing.T, f *Frontier, others int, every, long time.Duration) (large, all []time.Duration) {
	t.Helper()
	now := start
	page := 0
	for ; now.Sub(start) < long; now = now.Add(every) {
		if page%100 == 0 {
			var urls []string
			for i := range 100 {
				urls = append(urls, fmt.Sprintf("http://h%d.example/%d", (page+i)%max(others, 1), page+i),
					fmt.Sprintf("http://large.example/%d", page+i))
			}
			if others == 0 {
				urls = nil
				for i := range 100 {
					urls = append(urls, fmt.Sprintf("http://large.example/%d", page+i))
				}
			}
			push(t, f, urls...)
		}
		page++
		task, _, ok := f.Next(now)
		if !ok {
			continue
		}
		at := now.Sub(start)
		if all = append(all, at); task.Host == "large.example" {
			large = append(large, at)
		}
		must.Do(t, f.Done(task.Host, Done{}, now))
	}
	return large, all
}

func inHour(times []time.Duration, end time.Duration) (n int) {
	for _, at := range times {
		if at > end-time.Hour && at <= end {
			n++
		}
	}
	return n
}

// TestHostShare: after any request to the large host, its requests of the last hour are at most its share of those of
// the last hour, or one a minute.
func TestHostShare(t *testing.T) {
	const share = 0.01
	f := open(t, Config{HostDelay: time.Second, HostShare: share, NoAddresses: true})
	large, all := shareCrawl(t, f, 400, 200*time.Millisecond, 2*time.Hour)
	if len(all) < 30000 {
		t.Fatalf("%d requests, want about 36000: the share slows other hosts", len(all))
	}
	for i, at := range large {
		if i%10 > 0 {
			continue
		}
		most := max(share*float64(inHour(all, at)), min(at, time.Hour).Minutes()) + 2
		if n := inHour(large, at); float64(n) > most {
			t.Fatalf("%v: %d requests to the host in the last hour, want at most %.1f", at, n, most)
		}
	}
	if n, want := inHour(large, 2*time.Hour), share*float64(inHour(all, 2*time.Hour))*0.9; float64(n) < want {
		t.Errorf("%d requests to the host in the last hour, want at least %.0f", n, want)
	}
}

// TestHostShareAlone: a crawl of one host goes on with a request a minute.
func TestHostShareAlone(t *testing.T) {
	f := open(t, Config{HostDelay: time.Second, HostShare: 0.002, NoAddresses: true})
	large, _ := shareCrawl(t, f, 0, time.Second, 3*time.Hour)
	if len(large) < 175 || len(large) > 181 {
		t.Errorf("%d requests in three hours, want one a minute", len(large))
	}
	e := f.Explain("large.example", start.Add(3*time.Hour))
	if !strings.Contains(e.String(), "host share: at most one request in 1m0s") {
		t.Errorf("explained as:\n%s", e)
	}
}

// TestHostShareAfterARest: the requests of the last hour are forgotten while the crawl rests.
func TestHostShareAfterARest(t *testing.T) {
	var r recent
	for i := range int64(5000) {
		r.add(i*int64(time.Second), 1)
	}
	if r.n < 3540 || r.n > 3600 {
		t.Errorf("%d requests in the last hour, want 3600 less at most a minute", r.n)
	}
	if r.add(5000*int64(time.Second)+int64(3*time.Hour), 0); r.n != 0 {
		t.Errorf("%d requests three hours later, want 0", r.n)
	}
}
