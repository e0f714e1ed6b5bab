package placement

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestCategories: every part has an agent, and the agents have nearly the same number of parts, whatever their order.
func TestCategories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := named(rapid.IntRange(1, 40).Draw(t, "agents"))
		n := rapid.IntRange(1, 20).Draw(t, "categories")
		c := NewCategories(n, agents)
		if c.Parts()*n < len(agents) {
			t.Fatalf("%d categories of %d parts for %d agents", n, c.Parts(), len(agents))
		}
		total, least, most := 0, n*c.Parts(), 0
		for _, a := range agents {
			k := len(c.Of(a.Name))
			total, least, most = total+k, min(least, k), max(most, k)
		}
		if total != n*c.Parts() || most > least+1 || least == 0 {
			t.Fatalf("%d of %d parts; from %d to %d an agent", total, n*c.Parts(), least, most)
		}
		turned := append(append([]Owner(nil), agents[len(agents)/2:]...), agents[:len(agents)/2]...)
		again := NewCategories(n, turned)
		for category := range n {
			hash := rapid.Uint64().Draw(t, "hash")
			if got, want := again.Owner(category, hash), c.Owner(category, hash); got != want || got == "" {
				t.Fatalf("category %d belongs to %q, in another order of the agents to %q", category, want, got)
			}
		}
	})
}

// TestCategoriesCapacity: an agent of twice the capacity gets twice as many parts.
func TestCategoriesCapacity(t *testing.T) {
	agents := named(3)
	agents[1].Capacity = 2
	c := NewCategories(16, agents)
	if got := len(c.Of("agent-1")); got != 8 {
		t.Errorf("the agent of capacity 2 of 4 has %d of 16 parts, want 8", got)
	}
}

// TestCategoriesLoss: when an agent is lost, most parts of the others stay where they are.
func TestCategoriesLoss(t *testing.T) {
	const n = 16
	for agents := 3; agents <= n; agents++ {
		before, after := NewCategories(n, named(agents)), NewCategories(n, named(agents-1))
		moved, kept := 0, 0
		for category := range n {
			switch was, is := before.Owner(category, 0), after.Owner(category, 0); {
			case was == fmt.Sprintf("agent-%d", agents-1):
				if is == was {
					t.Fatalf("%d agents: category %d still belongs to the lost agent", agents, category)
				}
			case is != was:
				moved++
			default:
				kept++
			}
		}
		if moved > n/2 {
			t.Errorf("%d agents: %d categories of other agents have moved, %d stay", agents, moved, kept)
		}
	}
}

// TestCategoriesGolden: the division is the same in every version, because agents of two versions must agree.
func TestCategoriesGolden(t *testing.T) {
	c := NewCategories(5, named(2))
	got := fmt.Sprint(c.Of("agent-0"), c.Of("agent-1"))
	if want := "[0 4] [1 2 3]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
