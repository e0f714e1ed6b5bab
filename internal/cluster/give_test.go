package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The new owner of a host gets its finished URLs only when the heir of the previous owner has the finishes, and with
// them the names. Otherwise the loss of the previous owner loses pages that no agent fetches again.
func TestHandedAfterNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, before, after := handing(t)
		before.unnamed.Store(true)
		b.mates[1].open()
		before.open()
		time.Sleep(5 * time.Second)
		hands := moveHost(b, before, after)
		if log := b.Text(); strings.Contains(log, hands) {
			t.Errorf("the new owner got the finished URL, and no agent can name it\n%s", log)
		}
		before.unnamed.Store(false)
		b.finish()
		b.closes()
		isHanded(b, hands)
	})
}

// handing returns a band of three agents. The first one has a page, the second one is its heir, and the third one will
// own the host when it joins.
func handing(t *testing.T) (b *band, before, after *mate) {
	older, newer := &roster{names: "a0 a1"}, &roster{names: "a0 a1 a2"}
	host := hostBetween(older, newer, "a0", "a2")
	seed := "http://" + host + "/"
	b = &band{
		t: t, acked: map[string]map[weburl.Key][]time.Duration{},
		Diary: textweb.NewDiary(textweb.Parse(t, fmt.Sprintf("dns %s 192.0.2.1\n%s\n", host, seed)), 1, 22),
	}
	for i, view := range []*roster{older, older, newer} {
		m := b.enlist(rand.New(rand.NewPCG(1, 21)), 1, fmt.Sprint("a", i), fate{moves: true})
		m.seeds = []weburl.URL{weburl.MustParse(seed)}
		m.view.Store(view)
		m.late = i == 2
	}
	return b, b.mates[0], b.mates[2]
}

// moveHost lets the third agent of handing join. It returns what the log says when that agent has got the finished URL.
func moveHost(b *band, before, after *mate) (hands string) {
	if seed := before.seeds[0].String(); b.fetched(seed) != 1 {
		b.t.Fatalf("%s was fetched %d times before the host moved", seed, b.fetched(seed))
	}
	after.open()
	b.mates[1].gains(after.name)
	before.gains(after.name)
	time.Sleep(10 * time.Second)
	return fmt.Sprintf("%s hands %s: 1 keys", before.story.name, after.name)
}

// isHanded fails if the third agent of handing has not got the finished URL.
func isHanded(b *band, hands string) {
	seed := b.mates[0].seeds[0].String()
	if log := b.Text(); !strings.Contains(log, hands) || b.fetched(seed) != 1 {
		b.t.Errorf("the new owner did not get the finished URL, or %s was fetched %d times\n%s", seed, b.fetched(seed),
			log)
	}
}

// slowNames is the Names of an agent whose archive has one page. It takes long to read.
type slowNames struct {
	notebook
	page weburl.URL
	read atomic.Bool
}

func (n *slowNames) Each(fn func(weburl.Link, bool, string) error) error {
	for !n.read.Load() {
		time.Sleep(100 * time.Millisecond)
	}
	return fn(weburl.Link{URL: n.page}, false, "")
}

// An agent was killed before its heir had its last finishes. It reads their names from its archive. Before the heir has
// the names, it takes no URL for finished that it cannot name, and the new owner of a host does not get these URLs.
func TestHandedAfterOldNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, before, after := handing(t)
		page := before.seeds[0]
		names := &slowNames{page: page}
		parts := before.with
		before.with = func() (Others, error) {
			o, err := parts()
			o.Names = names
			return o, err
		}
		before.unnamed.Store(true)
		b.mates[1].open()
		before.open()
		time.Sleep(5 * time.Second)
		before.end(pause{kill: true})
		before.unnamed.Store(false)
		before.open()
		time.Sleep(10 * time.Second)
		b.mu.Lock()
		told := b.acked[before.story.name][page.Key()]
		b.mu.Unlock()
		if len(told) > 0 {
			t.Errorf("the heir took the URL for finished at %v, and could not name it", told)
		}
		hands := moveHost(b, before, after)
		if log := b.Text(); strings.Contains(log, hands) {
			t.Errorf("the new owner got the finished URL, and no agent can name it\n%s", log)
		}
		names.read.Store(true)
		b.finish()
		b.closes()
		isHanded(b, hands)
	})
}
