package sim

import (
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
