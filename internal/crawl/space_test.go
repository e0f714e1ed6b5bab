package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A counted is a disk that counts the looks at it.
type counted struct {
	Free, Size uint64
	looks      int
}

func (d *counted) Space() disk.Space {
	d.looks++
	return disk.Space{Free: d.Free, Size: d.Size}
}

// A run looks at the disk once a second. It tells once that nine tenths are in use, and again after there was room.
func TestSpace(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/logs", 0o755))
	events := must.Get(report.OpenEvents(mem, "/logs/events", clock.System))(t)
	d := &counted{Size: 1000}
	s := space{events: events, cfg: &Config{MinFreeDisk: 50, Disk: d}}
	now := time.Unix(1e9, 0)
	got := ""
	for _, step := range []uint64{500, 101, 99, 60, 50, 49, 0, 120, 90, 151, 90} {
		now, d.Free = now.Add(time.Second), step
		if s.low(now) {
			got += fmt.Sprint(step, " ")
		}
		s.low(now.Add(time.Second / 2))
	}
	if got != "49 0 " || d.looks != 11 {
		t.Errorf("too little is free at %safter %d looks", got, d.looks)
	}
	must.Do(t, events.Flush())
	b := must.Get(disk.ReadFile(mem, "/logs/events", 1<<20))(t)
	told := strings.Count(string(b), `"event":"disk-scarce"`)
	if first := `"free":99,"size":1000,"least":50`; told != 2 || !strings.Contains(string(b), first) {
		t.Errorf("the events are\n%swant two, the first with %s", b, first)
	}
	d.Size, d.Free, now = 0, 0, now.Add(time.Hour) // the system does not say
	if s.low(now) || (&space{cfg: &Config{MinFreeDisk: 50}}).low(now) {
		t.Error("it stops although nothing is known of the disk")
	}
	s.cfg.MinFreeDisk, d.Size, now = 0, 1000, now.Add(time.Hour)
	if s.low(now) {
		t.Error("it stops although nothing must stay free")
	}
}
