package frontier_test

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestHush checks that after a resume all hosts are quiet for their delay: queued hosts, hosts in a pool, and hosts
// that are met later.
func TestHush(t *testing.T) {
	const delay = 10 * time.Second
	f, err := frontier.Open(testdisk.NewMem(), "q", frontier.Config{HostDelay: delay, NoAddresses: true, Active: 2})
	must.Do(t, err)
	start := time.Unix(1_000_000, 0)
	link := func(host string) []link.Link {
		u := must.Get(weburl.Parse("http://" + host + "/"))(t)
		return []link.Link{{URL: u}}
	}
	var numbers []uint64
	for i, host := range []string{"a.example", "b.example", "c.example", "d.example"} {
		numbers = append(numbers, uint64(10*i+7))
		must.Do(t, f.PushAt(link(host), numbers[i:]))
	}
	if err := f.PushAt(link("z.example"), []uint64{3}); err == nil {
		t.Error("PushAt accepted a number below the last one")
	}
	f.Hush(start)
	f.Touched("slow.example", 3*delay, start)
	must.Do(t, f.PushAt(append(link("new.example"), link("slow.example")...), []uint64{50, 50}))
	if _, wake, ok := f.Next(start.Add(delay - 1)); ok || !wake.Equal(start.Add(delay)) {
		t.Fatalf("within the quiet time: %v, wake %v; want false, the end of the quiet time", ok, wake)
	}
	var got []uint64
	for {
		task, _, ok := f.Next(start.Add(delay))
		if !ok {
			break
		}
		got = append(got, task.Number)
		must.Do(t, f.Done(task.Host, frontier.Done{}, start.Add(delay)))
	}
	if want := append(numbers, 50); len(got) != len(want) {
		t.Fatalf("numbers %v, want %v", got, want)
	} else {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("numbers %v, want %v", got, want)
			}
		}
	}
	task, _, ok := f.Next(start.Add(3 * delay))
	if !ok || task.Host != "slow.example" || task.Number != 50 {
		t.Errorf("after its own delay: %+v, %v; want slow.example", task, ok)
	}
}
