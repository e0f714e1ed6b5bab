package crawl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/weburl"
)

// An agent with an older view sends a link to an agent that passes it on, and that is
// killed with its disk before it could: the link is fetched all the same, whether the
// owner had the passing agent's replica or could not be reached at all.
func TestPassedOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		ships bool // the passing agent can ship to the owner, and cannot push
	}{{"owner not there", false}, {"owner has the replica", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { passedOn(t, c.ships) })
		})
	}
}

func passedOn(t *testing.T, ships bool) {
	older, newer, last := &roster{names: "a0 a1"}, &roster{names: "a0 a1 a2"}, &roster{names: "a0 a2"}
	hostOf := func(byOlder, byNewer string) string {
		for i := 0; ; i++ {
			host := fmt.Sprintf("h%d.example", i)
			key := weburl.HostKey(host)
			if older.nearest(key)[0] == byOlder && newer.nearest(key)[0] == byNewer {
				return host
			}
		}
	}
	found, moved := hostOf("a0", "a0"), hostOf("a1", "a2")
	seed, link := "http://"+found+"/", "http://"+moved+"/1"
	b := &band{
		t: t, rng: rand.New(rand.NewPCG(1, 22)), acked: map[string]map[weburl.Key][]time.Duration{},
		web: parseWeb(t, fmt.Sprintf("dns %s 192.0.2.1\ndns %s 192.0.2.2\n%s %s\n%s\n", found,
			moved, seed, link, link)),
	}
	for i, view := range []*roster{older, newer, newer} {
		m := b.enlist(rand.New(rand.NewPCG(1, 21)), 1, fmt.Sprint("a", i), fate{moves: true})
		m.seeds = []weburl.URL{weburl.MustParse(seed)}
		m.view.Store(view)
		m.late = i == 2
	}
	finder, passer, owner := b.mates[0], b.mates[1], b.mates[2]
	passer.mute = true
	finder.open()
	passer.open()
	if ships {
		owner.open()
	}
	time.Sleep(5 * time.Second)
	passer.end(pause{kill: true})
	passer.dead, passer.mem = true, nil
	if ships {
		owner.loses(passer.name)
	} else {
		owner.view.Store(last)
		owner.open()
	}
	finder.loses(passer.name)
	finder.gains(owner.name)
	b.finish()
	b.closes()
	if n := b.fetched(link); n != 1 {
		t.Errorf("%s was fetched %d times\n%s\n%s", link, n, b.log.String(), b.web.byAgent())
	}
}

// closes waits until the agents have ended and closes what they have open.
func (b *band) closes() {
	for _, m := range b.living() {
		w := m.w.Load()
		if stop := <-m.ended; stop != Finished || w.Pending() != 0 {
			b.t.Errorf("%s: stop %s, %d pending", m.name, stop, w.Pending())
		}
		m.tasks.Wait()
		err := errors.Join(w.Outbox.Close(), w.Copies.Out.Close(), w.Copies.Waiting.Close())
		if err := errors.Join(err, w.close(), m.store.Close()); err != nil {
			b.t.Fatal(err)
		}
	}
}

// fetched counts the requests for a URL.
func (b *band) fetched(url string) (n int) {
	for _, r := range b.web.told() {
		if r.url == url {
			n++
		}
	}
	return n
}

// A host moves while its owner cannot send the links of a page of the host, and then
// the owner is lost for good. The new owner is not told that the page is finished
// before its links are safe, so it fetches the page again and finds them.
func TestGivenWithLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older, newer := &roster{names: "a0 a1"}, &roster{names: "a0 a1 a2"}
		hostOf := func(byOlder, byNewer string) string {
			for i := 0; ; i++ {
				host := fmt.Sprintf("h%d.example", i)
				key := weburl.HostKey(host)
				if older.nearest(key)[0] == byOlder && newer.nearest(key)[0] == byNewer {
					return host
				}
			}
		}
		moves, stays := hostOf("a0", "a2"), hostOf("a1", "a1")
		seed, link := "http://"+moves+"/", "http://"+stays+"/1"
		b := &band{
			t: t, rng: rand.New(rand.NewPCG(1, 22)), acked: map[string]map[weburl.Key][]time.Duration{},
			web: parseWeb(t, fmt.Sprintf("dns %s 192.0.2.1\ndns %s 192.0.2.2\n%s %s\n%s\n", moves,
				stays, seed, link, link)),
		}
		for i := range 3 {
			m := b.enlist(rand.New(rand.NewPCG(1, 21)), 1, fmt.Sprint("a", i), fate{moves: true})
			m.seeds = []weburl.URL{weburl.MustParse(seed)}
			m.view.Store(older)
		}
		lost, owner, comes := b.mates[0], b.mates[1], b.mates[2]
		lost.mute = true
		lost.open()
		owner.open()
		time.Sleep(5 * time.Second)
		comes.view.Store(newer)
		comes.late = true
		comes.open()
		lost.gains(comes.name)
		owner.gains(comes.name)
		time.Sleep(5 * time.Second)
		lost.end(pause{kill: true})
		lost.dead, lost.mem = true, nil
		owner.loses(lost.name)
		comes.loses(lost.name)
		b.finish()
		b.closes()
		if n := b.fetched(link); n != 1 {
			t.Errorf("%s was fetched %d times\n%s\n%s", link, n, b.log.String(), b.web.byAgent())
		}
	})
}
