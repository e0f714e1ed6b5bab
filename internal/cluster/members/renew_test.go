package members_test

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// A renewed instance is another one, also by the name of its archive. The others see of which one it was made.
func TestRenew(t *testing.T) {
	first, other := rpc.ID{1, 2, 3, 4, 5, 6, 15: 7}, rpc.ID{1, 2, 3, 4, 5, 6, 15: 8}
	second := members.Renew(first)
	third := members.Renew(second)
	archive := func(id rpc.ID) string { return handoff.Source{Name: "a", Instance: id}.Archive() }
	if archive(first) == archive(second) || archive(second) == archive(third) {
		t.Errorf("archives %s, %s, %s", archive(first), archive(second), archive(third))
	}
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"renewed":       {first.String(), second.String(), true},
		"renewed twice": {third.String(), first.String(), true},
		"the same":      {first.String(), first.String(), false},
		"another one":   {first.String(), other.String(), false},
		"none":          {"", "", false},
		"damaged":       {first.String()[1:], second.String()[1:], false},
	} {
		if got := members.Renewed(c.a, c.b); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	view := func(id rpc.ID, s gossip.State) *gossip.View {
		return &gossip.View{Agents: []gossip.Agent{{Name: "a", Instance: id, State: s}}}
	}
	for name, c := range map[string]struct {
		view *gossip.View
		want bool
	}{
		"no view":       {nil, false},
		"nobody":        {&gossip.View{}, false},
		"the same":      {view(first, gossip.Up), false},
		"about to join": {view(second, gossip.Joining), false},
		"up":            {view(second, gossip.Up), true},
		"leaving":       {view(second, gossip.Leaving), true},
	} {
		if got := members.Returned(c.view, archive(first)); got != c.want {
			t.Errorf("returned, %s: %v", name, got)
		}
	}
}
