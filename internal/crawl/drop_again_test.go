package crawl

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

const againWeb = `
delay 1s
seed http://a.example/
http://a.example/robots.txt robots=User-agent:_*;Disallow:
`

// A page that is to be visited again is not requested after its host is dropped: not after the
// look-up of the host, nor after a failure, nor when a worker is free, nor by the next run.
func TestDropAgain(t *testing.T) {
	for _, c := range []struct {
		name, web string
		every     int // seconds
		at        time.Duration
	}{
		{"look-up", "dns a.example 192.0.2.1 | timeout | 192.0.2.1\nhttp://a.example/ 200\n", 100, 103 * time.Second},
		{"failure", "dns a.example 192.0.2.1\nhttp://a.example/ 200 | 504 slow=5s | 504 slow=5s | 200\n", 10,
			12 * time.Second},
	} {
		for _, kill := range []bool{false, true} {
			bubble(t, fmt.Sprint(c.name, " kill=", kill), func(t *testing.T) {
				s := &story{text: againWeb + c.web, strategy: func() Strategy {
					return &returner{follower: takeAll, n: 1, every: c.every}
				}}
				s.pauses = []pause{{kill: kill}}
				w, cancel, end := s.begin(t)
				time.Sleep(c.at)
				asked := len(s.web.Told())
				again := 0
				w.tell(func(time.Time) { again = len(w.revisiting) })
				synctest.Wait()
				if again != 1 {
					t.Errorf("%d URLs are visited again\n%s", again, s.web.Requests())
				}
				if _, err := w.Drop(t.Context(), "a.example"); err != nil {
					t.Fatal(err)
				}
				if kill {
					mem := w.kill(cancel)
					end()
					w.close()
					asked = len(s.web.Told())
					w = s.opened(t, mem)
					finished(t)(w.Run(t.Context()))
				} else if stop, err := end(); stop != Finished || err != nil {
					t.Errorf("ended with %s, %v", stop, err)
				}
				if n := len(s.web.Told()) - asked; n != 0 {
					t.Errorf("%d requests after the drop\n%s", n, s.web.Requests())
				}
				if len(w.underWay) > 0 || w.Pending() != 0 {
					t.Errorf("under way %v, %d pending", w.underWay, w.Pending())
				}
				must(t, w.close())
			})
		}
	}
}

// Two workers visit three pages again. The visit that waits for a worker does not begin after its
// host is dropped.
func TestDropAgainDuringIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "delay 1s\nworkers 2\nslow-visits -1\n"
		waits := map[string]bool{} // waiting for a worker
		for i, h := range []string{"a.example", "b.example", "c.example"} {
			text += fmt.Sprintf("seed http://%s/\ndns %[1]s 192.0.2.%d\nhttp://%[1]s/ 200 | slow=20s\n"+
				"http://%[1]s/robots.txt robots=User-agent:_*;Disallow:\n", h, i+1)
			waits[h] = true
		}
		s := &story{text: text, strategy: func() Strategy { return &returner{follower: takeAll, n: 1, every: 30} }}
		w, _, end := s.begin(t)
		time.Sleep(40 * time.Second)
		asked := s.web.Told()
		for _, r := range asked {
			if r.At > 30*time.Second {
				delete(waits, r.Host)
			}
		}
		busy := 0
		w.tell(func(time.Time) { busy = w.busy })
		synctest.Wait()
		if busy != 3 || len(waits) != 1 {
			t.Errorf("%d visits under way, %v waiting for a worker\n%s", busy, waits, s.web.Requests())
		}
		for host := range waits {
			if _, err := w.Drop(t.Context(), host); err != nil {
				t.Error(err)
			}
		}
		finished(t)(end())
		if n := len(s.web.Told()) - len(asked); n != 0 {
			t.Errorf("%d requests after the drop\n%s", n, s.web.Requests())
		}
		must(t, w.close())
	})
}

// A restart copies each of many drops and blocks once. A checkpoint omits all drops but the last
// that no link needs any more, and so does the next restart.
func TestManyDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recovered := func(n int) (bytes uint64) {
			s := parsed(t, twoHosts)
			w := s.opened(t, testdisk.NewMem())
			w.takeLinks(t, 3, "")
			for i := range n {
				must(t, w.drop(fmt.Sprintf("host%d.example", i), w.began))
			}
			must(t, errors.Join(w.drop("a.example", w.began), w.secure()))
			mem := w.kill(func() {})
			w.close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w = s.opened(t, mem)
			runtime.ReadMemStats(&after)
			save := func(want int) {
				t.Helper()
				must(t, w.beginCheckpoint(all()))
				must(t, w.endCheckpoint(true))
				if len(w.drops.of) != want {
					t.Errorf("%d drops are kept, want %d", len(w.drops.of), want)
				}
			}
			save(n + 1) // links of a.example wait to be finished
			for w.giveUp(w.began) {
			}
			w.flushSeen()
			save(1)
			mem = w.kill(func() {})
			w.close()
			w = s.opened(t, mem)
			if d := w.drops.last("a.example"); len(w.drops.of) != 1 || int(d.nth) != n+1 || int(w.nth) != n+1 {
				t.Errorf("after a restart %d drops, the last %+v, nth %d", len(w.drops.of), d, w.nth)
			}
			w.close()
			return after.TotalAlloc - before.TotalAlloc
		}
		few, many := recovered(1000), recovered(20_000)
		if each := (int64(many) - int64(few)) / 19_000; each > 4<<10 {
			t.Errorf("a drop takes %d bytes of a restart, which is more than to copy it", each)
		}
	})
}
