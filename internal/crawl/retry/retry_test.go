package retry

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Random retries: each URL comes back once, in the order of the times, with its number and its attempts, unless its
// host is withdrawn.
func TestBook(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 0))
	b, now := NewBook(1), time.Unix(1e9, 0)
	waiting := map[link.Key]Delayed{}
	last := now
	for n := range 5000 {
		switch rng.IntN(4) {
		case 0, 1:
			d := Delayed{At: now.Add(time.Duration(rng.IntN(60)) * time.Second), Number: uint64(n)}
			d.Attempt = rng.IntN(5)
			d.Link.URL = weburl.MustParse(fmt.Sprintf("http://h%d.example/%d", rng.IntN(9), n))
			if !b.Put(d) {
				t.Fatal("no room")
			}
			waiting[d.Link.Key()] = d
		case 2:
			now = now.Add(time.Duration(rng.IntN(5)) * time.Second)
			last = time.Time{}
			for {
				d, next, ok := b.Due(now)
				if !ok {
					for _, w := range waiting {
						if !w.At.After(now) || next.IsZero() || w.At.Before(next) {
							t.Fatalf("at %s, the next one is due at %s, and %+v waits", now, next, w)
						}
					}
					break
				}
				k := d.Link.Key()
				if w := waiting[k]; w.At != d.At || d.At.After(now) || d.At.Before(last) ||
					b.Number(k, 7) != w.Number || b.Attempts(k) != w.Attempt {
					t.Fatalf("%+v came back as %+v", w, d)
				}
				last = d.At
				delete(waiting, k)
				if b.Forget(k); b.Attempts(k) != 0 || b.Number(k, 7) != 7 {
					t.Fatalf("%+v is not forgotten", d)
				}
			}
		case 3:
			if rng.IntN(20) > 0 {
				continue
			}
			host := fmt.Sprintf("h%d.example", rng.IntN(9))
			for _, w := range b.Withdraw(host) {
				d := waiting[w.Link.Key()]
				if w.Link.URL.Host() != host || d.Number != w.Number || d.Attempt != w.Attempt {
					t.Fatalf("%s: withdrawn %+v", host, w)
				}
				delete(waiting, w.Link.Key())
			}
			for range b.Of(host) {
				t.Fatalf("%s is withdrawn, and a URL waits", host)
			}
		}
		if b.Waiting() != len(waiting) {
			t.Fatalf("%d wait, want %d", b.Waiting(), len(waiting))
		}
	}
}

func TestLookUpsAreBounded(t *testing.T) {
	var tr lookups
	for i := range 3 * lookupsMax {
		tr.add(fmt.Sprint("h", i))
	}
	if n := len(tr.now) + len(tr.before); n > 2*lookupsMax {
		t.Errorf("%d hosts", n)
	}
	last := fmt.Sprint("h", 3*lookupsMax-1)
	if n := tr.add(last); n != 2 || tr.of(last) != 2 {
		t.Errorf("%s failed twice, counted %d", last, n)
	}
	tr.clear(last)
	if tr.of(last) != 0 {
		t.Error("cleared, and still counted")
	}
}

// The failed seeds that are kept take bounded memory, and the first of them are kept.
func TestFailedSeedsAreBounded(t *testing.T) {
	n := &Failures{Tally: report.NewTally()}
	seed := func(i int) link.Link {
		return link.Link{URL: weburl.MustParse(fmt.Sprintf("http://h%d.example/", i)), Seed: "h.example"}
	}
	for i := range maxAgain + 5 {
		n.Finished(&state.Finish{Link: seed(i), Code: report.CodeDNS}, false)
	}
	again := n.Again()
	if len(again) != maxAgain {
		t.Fatalf("%d failed seeds are kept, want %d", len(again), maxAgain)
	}
	l, _, err := link.Decode(again[maxAgain-1])
	if want := seed(maxAgain - 1).URL; err != nil || l.URL != want {
		t.Errorf("the last one kept is %v, %v, want %v", l.URL, err, want)
	}
}

// The display counts URLs that will be tried again by the kind of their last failure, and knows when the next one
// comes.
func TestSum(t *testing.T) {
	b, now := NewBook(1), time.Unix(1e9, 0)
	key := func(n int) link.Key { return link.Key{Path: uint64(n)} }
	b.NoteFailure(key(1), "dns", now.Add(time.Minute))
	b.NoteFailure(key(2), "dns", now.Add(-time.Minute))
	b.NoteFailure(key(3), "connect", now.Add(time.Hour))
	b.NoteFailure(key(3), visit.RobotsUnreachable.String(), now.Add(time.Second)) // the reason stays
	kinds, next := b.Sum(now)
	if !maps.Equal(kinds, map[string]int64{"dns": 2, "connect": 1}) || !next.Equal(now.Add(time.Second)) {
		t.Errorf("kinds %v, next at %s", kinds, next)
	}
	b.Forget(key(3))
	if _, ok := b.Failure(key(3)); ok {
		t.Error("a finished URL is still said to be tried again")
	}
	for n := range 2*most + 5 {
		b.NoteFailure(key(n), "dns", now)
	}
	if kinds, _ := b.Sum(now); kinds["dns"] != 2*most {
		t.Errorf("%d failures are kept, want %d", kinds["dns"], 2*most)
	}
}

// The URLs beside the queues, and those that came back, are bounded.
func TestBookIsBounded(t *testing.T) {
	b := NewBook(1)
	for n := range most {
		b.SetAttempts(link.Key{Path: uint64(n)}, 1)
	}
	if b.Put(Delayed{}) {
		t.Error("a URL more than the bound waits")
	}
	if b.SetAttempts(link.Key{}, 0); !b.Put(Delayed{}) {
		t.Error("there is no room, although a URL was forgotten")
	}
}
