package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		v := Tell(t, Plan{Seed: 1, Agents: 3, Latency: 5 * time.Millisecond})
		t.Logf("%+v after %s", v, time.Since(began))
	})
}

var from = flag.Uint64("from", 1, "first seed")
var count = flag.Uint64("count", 20, "stories")
var verbose = flag.Bool("story", false, "")

func TestRandom(t *testing.T) {
	for seed := range *count {
		p := Random(*from + seed)
		t.Run(fmt.Sprint(p.Seed), func(t *testing.T) {
			t.Log(p)
			began := time.Now()
			synctest.Test(t, func(t *testing.T) {
				v := Tell(t, p)
				if v.Bad() || *verbose {
					t.Error(v)
					for _, l := range v.Log {
						l, _, _ = strings.Cut(l, "\n")
						t.Log(l)
					}
				} else {
					t.Log(v)
				}
			})
			t.Log(time.Since(began))
		})
	}
}
