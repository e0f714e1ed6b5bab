package sites

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// Coordinators that have begun anew have another log. An agent that starts forgets what it has of the lost one, also if
// the new log has more entries. An agent that runs ends.
func TestAnew(t *testing.T) {
	for _, hosts := range []int{0, 1, 2, 3, 100} {
		t.Run(fmt.Sprintf("%d hosts", hosts), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake("a", "b")
				f.group = [16]byte{1}
				disk := testdisk.NewMem()
				a := start(t, f, disk, nil)
				for _, host := range []string{"x.example", "y.example"} { // a's and b's
					a.Owner(host)
					sleep(2 * time.Second)
				}
				a.owns("x.example", "a")
				must.Do(t, a.stop())

				f = newFake("a", "c")
				f.group = [16]byte{2}
				for i := range hosts {
					f.assign(fmt.Sprintf("h%d.example", i))
				}
				a = start(t, f, disk, func(c *Config) { c.Self.Boot = 2 })
				sleep(5 * time.Second)
				if !slices.Contains(a.events, "coordinators-anew") || !slices.Equal(a.rosters, []uint64{1}) ||
					a.Number() != uint64(len(f.entries)) {
					t.Fatalf("events %v, rosters %v, number %d of %d", a.events, a.rosters, a.Number(), len(f.entries))
				}
				for _, host := range []string{"x.example", "y.example"} {
					a.Owner(host)
					sleep(2 * time.Second)
					owner, _ := a.Owner(host)
					if want := f.members[(len(f.known)-1)%2].Name; owner != want {
						t.Errorf("%s is %q's, want %s's", host, owner, want)
					}
				}
				must.Do(t, a.stop())
				a = start(t, f, disk, func(c *Config) { c.Self.Boot = 3 })
				sleep(5 * time.Second)
				if len(a.events) > 0 {
					t.Errorf("the same log: events %v", a.events)
				}
				f.change(func() { f.group, f.entries = [16]byte{3}, nil; f.roster() })
				sleep(5 * time.Second)
				if err := a.stop(); !errors.Is(err, ErrRefused) {
					t.Errorf("an agent that runs ended with %v", err)
				}
			})
		})
	}
}

// Coordinators of a version without names of logs are believed as before.
func TestNoGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		disk := testdisk.NewMem()
		a := start(t, f, disk, nil)
		a.Owner("x.example")
		sleep(2 * time.Second)
		must.Do(t, a.stop())
		a = start(t, f, disk, nil)
		f.change(func() { f.group = [16]byte{1} }) // the coordinators have a name from now on
		a.Owner("x.example")
		a.Owner("y.example")
		sleep(2 * time.Second)
		a.owns("x.example", "a")
		a.owns("y.example", "a")
		f.change(func() { f.group = [16]byte{} })
		sleep(2 * time.Second)
		if len(a.events) > 0 || a.Number() != 3 {
			t.Errorf("events %v, number %d", a.events, a.Number())
		}
		must.Do(t, a.stop())
	})
}
