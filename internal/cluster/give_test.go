package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
		older, newer := &roster{names: "a0 a1"}, &roster{names: "a0 a1 a2"}
		host := hostBetween(older, newer, "a0", "a2")
		seed := "http://" + host + "/"
		b := &band{
			t: t, acked: map[string]map[weburl.Key][]time.Duration{},
			Diary: textweb.NewDiary(textweb.Parse(t, fmt.Sprintf("dns %s 192.0.2.1\n%s\n", host, seed)), 1, 22),
		}
		for i, view := range []*roster{older, older, newer} {
			m := b.enlist(rand.New(rand.NewPCG(1, 21)), 1, fmt.Sprint("a", i), fate{moves: true})
			m.seeds = []weburl.URL{weburl.MustParse(seed)}
			m.view.Store(view)
			m.late = i == 2
		}
		before, after := b.mates[0], b.mates[2]
		before.unnamed.Store(true)
		b.mates[1].open()
		before.open()
		time.Sleep(5 * time.Second)
		if n := b.fetched(seed); n != 1 {
			t.Fatalf("%s was fetched %d times before the host moved", seed, n)
		}
		after.open()
		b.mates[1].gains(after.name)
		before.gains(after.name)
		time.Sleep(10 * time.Second)
		hands := fmt.Sprintf("%s hands %s: 1 keys", before.story.name, after.name)
		if log := b.Text(); strings.Contains(log, hands) {
			t.Errorf("the new owner got the finished URL, and no agent can name it\n%s", log)
		}
		before.unnamed.Store(false)
		b.finish()
		b.closes()
		if log := b.Text(); !strings.Contains(log, hands) || b.fetched(seed) != 1 {
			t.Errorf("the new owner did not get the finished URL, or %s was fetched %d times\n%s", seed,
				b.fetched(seed), log)
		}
	})
}
