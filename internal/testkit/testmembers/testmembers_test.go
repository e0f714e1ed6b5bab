package testmembers

import (
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
)

// Agents know each other. One that is killed is lost, and another one may come.
func TestCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Open(t, "a", "b", "c")
		c.Begin()
		see := func(of *Agent, up, lost int) {
			t.Helper()
			v := of.Members.View()
			if len(of.Members.In(gossip.Up)) != up || len(v.Lost) != lost {
				t.Errorf("%s sees %v, lost %v", of.Members.Self.Name, v.Agents, v.Lost)
			}
		}
		for _, a := range c.Agents {
			see(a, 3, 0)
		}
		c.Agents[1].Kill()
		c.Add("d")
		c.Begin()
		see(c.Agents[0], 3, 1)
		see(c.Agents[3], 3, 1)
		c.Agents[2].Announce(gossip.Leaving)
		see(c.Agents[3], 2, 1)
	})
}
