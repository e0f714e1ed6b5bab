package sites

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// An agent that has crawled with lost coordinators may know any host. So from its first roster on, the owner of a host
// asks all others, also if the host was assigned to it. A return of the same agent changes nothing.
func TestStrangers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a", "b")
		disk := testdisk.NewMem()
		a := start(t, f, disk, nil)
		a.Owner("x.example")
		sleep(2 * time.Second)
		expect := func(when string, want uint64) {
			t.Helper()
			_, mine, since := a.Tenure("x.example")
			others, leaving := a.Before("x.example")
			all := want == 0 && leaving == 0 || want > 0 && leaving == len(others)
			if !mine || since != want || !all {
				t.Errorf("%s: mine: %t since %d, want %d; asks %d of %d others", when, mine, since, want, leaving,
					len(others))
			}
		}
		expect("without strangers", 0)
		change := func(members ...assignment.Member) {
			f.change(func() { f.members = members; f.roster() })
			sleep(time.Second)
		}
		was := f.members
		c := assignment.Member{Name: "c", Instance: [16]byte{3}, Boot: 1, Capacity: 1, State: assignment.Up}
		change(was[0], was[1], c)
		expect("a new agent", 0)
		d := assignment.Member{Name: "d", Instance: [16]byte{4}, Boot: 2, Capacity: 1, State: assignment.Up}
		change(was[0], was[1], c, d)
		came := a.View()
		expect("a stranger", came)
		c.Boot, d.Boot = 2, 3
		change(was[0], was[1])
		change(was[0], was[1], c, d)
		expect("both are back", came)
		must.Do(t, a.stop())
		a = start(t, f, disk, func(c *Config) { c.Self.Boot = 2 })
		a.Owner("x.example")
		sleep(2 * time.Second)
		expect("another start", came)
		d.Instance = [16]byte{5}
		change(was[0], was[1], c, d)
		expect("the stranger's name with another directory", a.View())
		must.Do(t, a.stop())
	})
}
