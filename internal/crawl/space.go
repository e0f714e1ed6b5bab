package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A space watches the room on the disk of the crawl directory. The dispatcher owns it.
type space struct {
	disk.Space
	cfg    *Config
	events *report.Events
	at     time.Time // of the last look; zero: none
	scarce bool      // the event about it is written
}

// lookAgain is the time between two looks at the disk, which take some microseconds.
const lookAgain = time.Second

// look updates the numbers if they are old. It writes an event when nine tenths of the disk are in use.
func (s *space) look(now time.Time) {
	if s.cfg.Disk == nil || !s.at.IsZero() && now.Sub(s.at) < lookAgain && !now.Before(s.at) {
		return
	}
	s.at, s.Space = now, s.cfg.Disk.Space()
	switch scarce := s.IsScarce(); {
	case scarce && !s.scarce:
		s.scarce = true
		s.events.Write("disk-scarce", report.F("free", s.Free), report.F("size", s.Size),
			report.F("least", s.cfg.MinFreeDisk))
	case s.Free > s.Size/100*15:
		s.scarce = false // the next time, the event is written again
	}
}

// low reports that less is free than the crawl wants to leave.
func (s *space) low(now time.Time) bool {
	s.look(now)
	return s.Size > 0 && s.cfg.MinFreeDisk > 0 && s.Free < uint64(s.cfg.MinFreeDisk)
}
