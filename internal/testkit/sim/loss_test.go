package sim

import (
	"testing"
	"time"
)

// Only what all copies of a host go down with is lost: the owner and its heir, or the agents that
// would be owner and heir in a view that some agents may have.
func TestLossOf(t *testing.T) {
	var a [5]*actor
	for i := range a {
		a[i] = &actor{number: i}
	}
	old, lost := &actor{number: 1, links: start.Add(time.Minute)}, &actor{number: 2, links: start}
	order := []int{1, 2, 3, 4}
	for _, c := range []struct {
		name       string
		copies     int
		a          *actor
		others     []*actor // down, too
		views, may []*actor
		is         bool
		links      time.Time
	}{
		{"owner alone", 2, a[1], nil, a[1:], nil, false, time.Time{}},
		{"owner and heir", 2, a[1], a[2:3], a[1:], nil, true, time.Time{}},
		{"owner and another", 2, a[1], a[3:4], a[1:], nil, false, time.Time{}},
		{"both are others", 2, a[4], a[1:3], a[1:], nil, false, time.Time{}},
		{"in a view without the owner", 2, a[2], a[3:4], a[2:], a[1:2], true, time.Time{}},
		{"three", 2, a[2], []*actor{a[1], a[3]}, a[2:], a[1:2], true, time.Time{}},
		{"one replica", 1, a[1], nil, a[1:], nil, true, time.Time{}},
		{"one replica of another", 1, a[2], nil, a[1:], nil, false, time.Time{}},
		{"one disk is lost", 2, a[1], []*actor{lost}, a[1:], nil, true, time.Time{}},
		{"one disk is lost, the other is old", 2, old, []*actor{lost}, a[1:], nil, true, old.links},
	} {
		t.Run(c.name, func(t *testing.T) {
			down := map[int]*actor{c.a.number: c.a}
			for _, o := range c.others {
				down[o.number] = o
			}
			links, is := lossOf(order, c.copies, c.a, down, c.views, c.may)
			if is != c.is || !links.Equal(c.links) {
				t.Errorf("got %t, links from %s; want %t, %s", is, links, c.is, c.links)
			}
		})
	}
}
