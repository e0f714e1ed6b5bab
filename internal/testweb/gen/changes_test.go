package gen

import (
	"bytes"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

var _ testweb.Changing = (*Web)(nil)

var testStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// changingWeb returns a small web whose pages change as c says.
func changingWeb(t testing.TB, c Changes) *Web {
	c.Start = testStart
	return newWeb(t, Spec{Seed: 3, Hosts: 300, PageBytes: 1, Links: 2, Topics: 1, Languages: 1, Changes: &c})
}

// changesOf returns the times of all changes of a page in (from, to], by going from each change to the next.
func changesOf(t *rapid.T, w *Web, host, page int64, from, to time.Time) (at []time.Time) {
	for {
		_, next := w.Changed(host, page, from)
		if next.IsZero() || next.After(to) {
			return at
		}
		if !next.After(from) {
			t.Fatalf("the change after %s is at %s", from, next)
		}
		at, from = append(at, next), next
	}
}

// TestChangedIsOneProcess: Changed reports the same changes at any time.
func TestChangedIsOneProcess(t *testing.T) {
	w := changingWeb(t, Changes{Rates: []Rate{{0.9, time.Hour, 30 * webDay}}})
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.Int64Range(0, w.Hosts()-1).Draw(t, "host")
		page := rapid.Int64Range(0, w.Pages(host)-1).Draw(t, "page")
		mean := w.MeanTime(host, page)
		if mean == 0 {
			last, next := w.Changed(host, page, testStart)
			if !next.IsZero() || last.After(testStart) {
				t.Fatalf("a page that never changes: last %s, next %s", last, next)
			}
			return
		}
		from := testStart.Add(time.Duration(rapid.Int64Range(-1000, 1000).Draw(t, "from")) * mean / 7)
		all := changesOf(t, w, host, page, from, from.Add(20*mean))
		for range 20 {
			at := from.Add(time.Duration(rapid.Int64Range(0, int64(20*mean)).Draw(t, "at")))
			var wantLast, wantNext time.Time
			for _, c := range all {
				if !c.After(at) {
					wantLast = c
				} else if wantNext.IsZero() {
					wantNext = c
				}
			}
			last, next := w.Changed(host, page, at)
			if !wantLast.IsZero() && !last.Equal(wantLast) || wantLast.IsZero() && last.After(from) ||
				!wantNext.IsZero() && !next.Equal(wantNext) {
				t.Fatalf("at %s: changed at %s and %s, want %s and %s", at, last, next, wantLast, wantNext)
			}
		}
	})
}

// TestChangesArePoisson: the pages of each rate change as often as it says. The counts have the variance of a Poisson
// distribution, and the times until the next change are exponential.
func TestChangesArePoisson(t *testing.T) {
	const n = 40_000
	w := newWeb(t, Spec{Seed: 9, Hosts: n, PagesMean: 1, MaxPages: 1, PageBytes: 1, Topics: 1, Languages: 1,
		Changes: &Changes{Start: testStart}})
	shares := map[int]float64{}
	var counts, squares, short, waits float64
	for host := range int64(n) {
		mean := w.MeanTime(host, 0)
		class := len(WebRates)
		for i, r := range WebRates {
			if mean > 0 && mean >= r.From && mean <= r.To {
				class = i
				break
			}
		}
		shares[class] += 1.0 / n
		if mean == 0 {
			continue
		}
		// Count for five mean times, from a time that is not the beginning of a cell.
		at, k := testStart.Add(mean/3), 0.0
		end := at.Add(5 * mean)
		for first := true; ; first = false {
			_, next := w.Changed(host, 0, at)
			if first {
				waits++
				if next.Sub(at) < mean {
					short++
				}
			}
			if next.After(end) {
				break
			}
			at, k = next, k+1
		}
		counts += k
		squares += k * k
	}
	for i, r := range WebRates {
		if math.Abs(shares[i]-r.Share) > 4*math.Sqrt(r.Share/n) {
			t.Errorf("%s to %s: a share of %.4f, want %.2f", r.From, r.To, shares[i], r.Share)
		}
	}
	mean := counts / waits
	if math.Abs(mean-5) > 4*math.Sqrt(5/waits) {
		t.Errorf("%.3f changes in five mean times, want 5", mean)
	}
	if v := squares/waits - mean*mean; math.Abs(v-5) > 0.2 {
		t.Errorf("variance %.3f, want 5", v)
	}
	if want := 1 - 1/math.E; math.Abs(short/waits-want) > 4*math.Sqrt(want/waits) {
		t.Errorf("a share of %.4f of the times to the next change is below the mean, want %.4f", short/waits, want)
	}
}

// ask requests a page at a time.
func ask(w *Web, host, page int64, at time.Time, gz bool, none, since string) (head, body []byte, status int) {
	out, r := w.Answer(nil, testweb.Query{Host: host, Target: w.Target(host, page), Gzip: gz, At: at, IfNoneMatch: none,
		IfModifiedSince: since})
	return out[:r.HeadLen], out[r.HeadLen:], r.Status
}

// TestVersionsAreServed: the content of a page differs after each change and is the same until then. The validators
// agree with that, except the wrong ones.
func TestVersionsAreServed(t *testing.T) {
	w := changingWeb(t, Changes{ETagOnly: 0.2, ModifiedOnly: 0.2, Neither: 0.2, Lying: 0.2,
		Rates: []Rate{{1, time.Minute, 30 * webDay}}})
	rng := rand.New(rand.NewPCG(1, 2))
	var kinds [numKinds]int
	for range 600 {
		host := rng.Int64N(w.Hosts())
		page := rng.Int64N(w.Pages(host))
		mean := w.MeanTime(host, page)
		first := testStart.Add(time.Duration(rng.Int64N(int64(10 * mean))))
		second := first.Add(time.Duration(rng.Int64N(int64(2 * mean))))
		gz := rng.IntN(2) == 0
		_, next := w.Changed(host, page, first)
		changed := !next.After(second)
		head, body, _ := ask(w, host, page, first, gz, "", "")
		head2, body2, _ := ask(w, host, page, second, gz, "", "")
		if bytes.Equal(body, body2) == changed {
			t.Fatalf("%s: changed is %v, but same content is %v", w.URL(host, page), changed, changed)
		}
		k := w.kindOf(w.process(host, page))
		kinds[k]++
		etag, modified := header(head, "ETag"), header(head, "Last-Modified")
		last, _ := w.Changed(host, page, first)
		recent := last.Unix() == first.Unix()
		honest := k >= silent
		if honest {
			if (etag != "") != (k == both || k == etagOnly) ||
				(modified != "") != ((k == both || k == modifiedOnly) && !recent) {
				t.Fatalf("kind %d, recent %v: ETag %q, Last-Modified %q", k, recent, etag, modified)
			}
			if modified != "" && modified != last.UTC().Format(http.TimeFormat) {
				t.Fatalf("Last-Modified %s, changed at %s", modified, last)
			}
			if etag != "" && (header(head2, "ETag") == etag) == changed {
				t.Fatalf("changed: %v, ETag %s and %s", changed, etag, header(head2, "ETag"))
			}
		}
		for _, c := range [][2]string{{etag, ""}, {"", modified}, {etag, modified}, {`"other", W/` + etag, ""}} {
			if c[0] == "" && c[1] == "" || c[0] == `"other", W/` {
				continue
			}
			h, b, status := ask(w, host, page, second, gz, c[0], c[1])
			want := 304
			switch {
			case honest && changed, k == restless && (c[0] != "" || second.Sub(first) >= 2*time.Second):
				want = 200
			case k == restless:
				continue
			}
			if status != want || status == 304 && len(b) > 0 ||
				status == 304 && etag != "" && k != restless && header(h, "ETag") != etag {
				t.Fatalf("kind %d, changed %v, condition %q: %d, want %d\n%s", k, changed, c, status, want, h)
			}
		}
		if etag != "" && honest && !changed {
			// The same version in another encoding is another representation, with another ETag.
			if _, _, status := ask(w, host, page, second, !gz, etag, ""); status != 200 {
				t.Fatalf("If-None-Match with the ETag of another encoding: %d, want 200", status)
			}
		}
		if !honest && k == stuck && changed {
			if _, _, status := ask(w, host, page, second, gz, etag, ""); status != 304 {
				t.Fatalf("an ETag that never changes: %d, want 304", status)
			}
		}
	}
	for k, want := range [numKinds]float64{restless: 0.1, stuck: 0.1, silent: 0.2, etagOnly: 0.2,
		modifiedOnly: 0.2, both: 0.2} {
		if got := float64(kinds[k]) / 600; math.Abs(got-want) > 0.06 {
			t.Errorf("kind %d: a share of %.3f, want %.1f", k, got, want)
		}
	}
}

// TestStartShiftsAll: webs that differ only in Start are equal at equal times since Start. Webs that differ only in Day
// are equal in days.
func TestStartShiftsAll(t *testing.T) {
	later := testStart.Add(1234567 * time.Second)
	spec := func(start time.Time, day time.Duration) Spec {
		return Spec{Seed: 5, Hosts: 100, PageBytes: 1, Topics: 1, Languages: 1,
			Changes: &Changes{Start: start, Day: day}}
	}
	a, b := newWeb(t, spec(testStart, 0)), newWeb(t, spec(later, webDay/1000))
	for host := range a.Hosts() {
		since := time.Duration(host) * 9 * time.Hour
		_, x := a.Changed(host, 0, testStart.Add(since))
		_, y := b.Changed(host, 0, later.Add(since/1000))
		if x.IsZero() != y.IsZero() {
			t.Fatalf("host %d: %s and %s", host, x, y)
		}
		if x.IsZero() {
			continue
		}
		if d := x.Sub(testStart) - 1000*y.Sub(later); d.Abs() > a.MeanTime(host, 0)/1000 {
			t.Errorf("host %d: next change after %s and %s, want a ratio of 1000", host, x.Sub(testStart), y.Sub(later))
		}
	}
}

func TestChangesRefused(t *testing.T) {
	for name, c := range map[string]Changes{
		"shares above 1":     {Rates: []Rate{{0.6, webDay, webDay}, {0.6, webDay, webDay}}},
		"from above to":      {Rates: []Rate{{0.5, 2 * webDay, webDay}}},
		"zero time":          {Rates: []Rate{{0.5, 0, webDay}}},
		"too fast":           {Day: time.Second, Rates: []Rate{{0.5, time.Second, webDay}}},
		"negative day":       {Day: -1},
		"validators above 1": {ETagOnly: 0.5, ModifiedOnly: 0.4, Neither: 0.2},
		"lying":              {Lying: math.NaN()},
		"start":              {Start: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)},
	} {
		if _, err := New(Spec{Changes: &c}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
