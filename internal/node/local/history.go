package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// historyEvery is the time between two samples. Their times are multiples of it, so that those of all agents agree.
	historyEvery = 30 * time.Second
	// historyMost bounds the samples: those of a day.
	historyMost = 2880
	// historySave is how many samples come between two writes of the file.
	historySave = 20
	// hoursMost bounds the hours: those of 30 days.
	hoursMost = 30 * 24
	// historyBytes bounds the file. A sample or an hour has at most 67 bytes.
	historyBytes = 1 << 20
)

// A History samples the agent's counts. Its file has those of the last day, and what was done in each hour of the last
// month: a pb.HistorySeries. It is written now and then, so a kill loses the last minutes. A file that cannot be read
// is replaced, because nothing but curves depends on it.
type History struct {
	fs     disk.FS
	file   string
	clock  clock.Clock
	events *report.Events
	counts Counts

	mu       sync.Mutex // guards the fields below
	samples  []*pb.HistorySample
	hours    []*pb.HistoryHour // the newest one is replaced, never changed
	searched uint64            // those before it were searched for checkpoints
}

// Counts are those of the crawl.
type Counts interface {
	// Status returns the state of the crawl. It is nil before the crawl begins.
	Status() *crawl.Status
}

// OpenHistory reads the samples of earlier runs.
func OpenHistory(fsys disk.FS, file string, clock clock.Clock, events *report.Events, counts Counts) (*History, error) {
	h := &History{fs: fsys, file: file, clock: clock, events: events, counts: counts}
	b, err := disk.ReadFile(fsys, file, historyBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	var s pb.HistorySeries
	if proto.Unmarshal(b, &s) == nil {
		h.samples = s.Samples[max(len(s.Samples)-historyMost, 0):]
		h.hours = s.Hours[max(len(s.Hours)-hoursMost, 0):]
	}
	return h, nil
}

// Begin samples until end is called. end waits until the file is written.
func (h *History) Begin() (end func()) {
	ctx, over := context.WithCancel(context.Background())
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		h.keep(ctx)
	}()
	return func() {
		over()
		<-kept
	}
}

// keep samples until ctx is done, and then writes the file. The crawl does not need the file: an event tells of an
// error of the disk.
func (h *History) keep(ctx context.Context) {
	for n := 1; ; n++ {
		now := h.clock.Now()
		if !clock.Pause(ctx, now.Truncate(historyEvery).Add(historyEvery).Sub(now)) {
			h.saveOrTell()
			return
		}
		h.sample()
		if n%historySave == 0 {
			h.saveOrTell()
		}
	}
}

func (h *History) saveOrTell() {
	if err := h.save(); err != nil {
		h.events.Write("history-failed", report.F("error", err.Error()))
	}
}

// sample adds a sample of the present counts.
func (h *History) sample() {
	s := h.counts.Status()
	if s == nil {
		return
	}
	p := &pb.HistorySample{UnixS: h.clock.Now().Round(historyEvery).Unix(), Pages: s.Pages, Bytes: s.Bytes,
		UrlsQueued: s.Queued, OpenRequests: int64(s.Open)}
	for _, n := range s.Errors {
		p.Errors += n
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.samples); n > 0 && h.samples[n-1].UnixS >= p.UnixS { // the clock went back
		return
	}
	h.count(p, s.ElapsedS, h.checkpoints())
	h.samples = append(h.samples, p)
	if len(h.samples) > historyMost {
		h.samples = slices.Clone(h.samples[len(h.samples)-historyMost:])
	}
}

// checkpoints returns how many there were since the last call. The caller holds mu.
func (h *History) checkpoints() (n int64) {
	var lines []string
	lines, h.searched, _ = h.events.Since(h.searched)
	for _, line := range lines {
		if eventOf(line).Event == "checkpoint" {
			n++
		}
	}
	return n
}

// count adds what was done since the last sample to the hour of the new one. A crawl without samples counts from its
// start, elapsed seconds ago, if that is within an hour. The caller holds mu.
func (h *History) count(p *pb.HistorySample, elapsed float64, checkpoints int64) {
	const seconds = 3600
	before := &pb.HistorySample{}
	if n := len(h.samples); n > 0 {
		before = h.samples[n-1]
	} else if elapsed > seconds {
		before = p
	}
	add := &pb.HistoryHour{UnixS: (p.UnixS - 1) / seconds * seconds} // a sample at a full hour ends the hour before
	if n := len(h.hours); n > 0 && h.hours[n-1].UnixS >= add.UnixS {
		add = proto.CloneOf(h.hours[n-1])
		h.hours = h.hours[:n-1]
	}
	add.Pages += max(p.Pages-before.Pages, 0)
	add.Bytes += max(p.Bytes-before.Bytes, 0)
	add.Errors += max(p.Errors-before.Errors, 0)
	add.Checkpoints += checkpoints
	h.hours = append(slices.Clip(h.hours), add)
	h.hours = h.hours[max(len(h.hours)-hoursMost, 0):]
}

func (h *History) save() error {
	h.mu.Lock()
	list, hours := slices.Clone(h.samples), slices.Clone(h.hours)
	h.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	b, err := proto.Marshal(&pb.HistorySeries{Samples: list, Hours: hours})
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return disk.WriteFile(h.fs, h.file, b)
}

// series answers a question. Of the hours, the newest one is not over.
func (h *History) series(q *pb.HistoryRequest) *pb.HistorySeries {
	h.mu.Lock()
	list, hours := slices.Clone(h.samples), slices.Clone(h.hours)
	h.mu.Unlock()
	from := h.clock.Now().Add(-time.Duration(q.Minutes) * time.Minute).Unix()
	if q.Hours {
		return &pb.HistorySeries{Hours: slices.DeleteFunc(hours, func(h *pb.HistoryHour) bool {
			return q.Minutes > 0 && h.UnixS < from
		})}
	}
	if q.Minutes > 0 {
		i, _ := slices.BinarySearchFunc(list, from, func(s *pb.HistorySample, at int64) int {
			return int(s.UnixS - at)
		})
		list = list[i:]
	}
	return &pb.HistorySeries{Samples: thin(list, int(q.Points))}
}

// thin leaves out samples, so that at most about n are left. All agents keep those of the same times.
func thin(list []*pb.HistorySample, n int) []*pb.HistorySample {
	if n <= 0 || len(list) <= n {
		return list
	}
	span := list[len(list)-1].UnixS - list[0].UnixS
	every, last := int64(historyEvery.Seconds()), list[len(list)-1]
	step := (span/int64(n)/every + 1) * every
	return slices.DeleteFunc(list, func(s *pb.HistorySample) bool {
		return s.UnixS%step != 0 && s != last
	})
}
