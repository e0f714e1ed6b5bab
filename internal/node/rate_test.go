package node

import "testing"

// If the agent that should divide the rate cannot, the agents get equal shares, which sum to one.
func TestEqualShare(t *testing.T) {
	for n, want := range map[int]float64{0: 1, 1: 1, 4: 0.25} {
		g := equalShare(make([]string, n))
		if g.Share != want || g.Agents != max(n, 1) || g.Requests != 0 || g.Bits != 0 {
			t.Errorf("%d agents: %+v", n, g)
		}
	}
}
