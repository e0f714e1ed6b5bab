package frontier_test

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// After a resume all hosts are quiet for their delay: those that were queued,
// those in a pool, those met later, and those that nobody queued.
func TestHush(t *testing.T) {
	const delay = 10 * time.Second
	f, err := frontier.Open(disk.NewMem(), "q", frontier.Config{HostDelay: delay, NoAddresses: true, Active: 2})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1_000_000, 0)
	link := func(host string) []weburl.Link {
		u, err := weburl.Parse("http://" + host + "/")
		if err != nil {
			t.Fatal(err)
		}
		return []weburl.Link{{URL: u}}
	}
	var numbers []uint64
	for i, host := range []string{"a.example", "b.example", "c.example", "d.example"} {
		numbers = append(numbers, uint64(10*i+7))
		if err := f.PushAt(link(host), numbers[i:]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.PushAt(link("z.example"), []uint64{3}); err == nil {
		t.Error("a number behind the last one is taken")
	}
	f.Hush(start)
	f.Touched("slow.example", 3*delay, start)
	if err := f.PushAt(append(link("new.example"), link("slow.example")...), []uint64{50, 50}); err != nil {
		t.Fatal(err)
	}
	if _, wake, ok := f.Next(start.Add(delay - 1)); ok || !wake.Equal(start.Add(delay)) {
		t.Fatalf("a host is asked within its quiet time (%v), wake %v", ok, wake)
	}
	var got []uint64
	for {
		task, _, ok := f.Next(start.Add(delay))
		if !ok {
			break
		}
		got = append(got, task.Number)
		if err := f.Done(task.Host, frontier.Done{}, start.Add(delay)); err != nil {
			t.Fatal(err)
		}
	}
	if want := append(numbers, 50); len(got) != len(want) {
		t.Fatalf("given out are %v, want %v", got, want)
	} else {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("given out are %v, want %v", got, want)
			}
		}
	}
	task, _, ok := f.Next(start.Add(3 * delay))
	if !ok || task.Host != "slow.example" || task.Number != 50 {
		t.Errorf("after its own delay: %+v, %v", task, ok)
	}
}
