package crawl

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Disk is the room of the file system of the crawl directory, and what the archive takes of it.
type Disk struct {
	disk.Space
	Archived
}

// Archived is what the archive takes on the disk of a crawl whose segments go to a store.
type Archived struct {
	Here   int64       `json:"archive_bytes,omitempty"`   // on this disk
	Unsent int64       `json:"unsent_bytes,omitempty"`    // of these: the store does not have them yet
	Most   int64       `json:"-"`                         // that may be here; below 0: there is no bound
	Away   clock.Stamp `json:"store_away_since,omitzero"` // since when the store has not answered
	// Refused says which segment the store does not take, and why; "": it takes all.
	Refused string `json:"-"`
}

// A Backlog is what waits here for an object store. Safe for concurrent use.
type Backlog interface {
	// Fill returns how much of the room for the archive is taken by what the store does not have: visits begin less
	// often from 0.8 on, and none from 1 on.
	Fill() float64
	Archived() Archived
}

// A space watches the room on the disk of the crawl directory. The dispatcher owns it.
type space struct {
	disk.Space
	cfg    *Config
	events *report.Events
	at     time.Time // of the last look; zero: none
	scarce bool      // the event about it is written
	full   bool      // the room for the archive is full
	waited bool      // it was full in this run
	silent bool      // no event tells that it is full: without any room, it is full after each segment
}

const (
	// slowFrom is the Fill of a Backlog from which on visits begin less often.
	slowFrom = 0.8
	// slowSpan is the time of which they may begin in a part only. It is longer than most delays of hosts.
	slowSpan = 10 * time.Second
)

// backlogged reports that no visit may begin now, because the room for the archive is full, or nearly: then visits may
// begin in the first part of each slowSpan.
func (s *space) backlogged(now time.Time) (bool, time.Time) {
	if s.cfg.Backlog == nil {
		return false, time.Time{}
	}
	fill := s.cfg.Backlog.Fill()
	a := s.cfg.Backlog.Archived
	switch {
	case fill >= 1:
		if !s.full {
			s.full = true
			s.silent = s.waited && a().Most == 0
			s.waited = true
			if !s.silent {
				s.events.Write("archive-full", report.F("unsent", a().Unsent), report.F("most", a().Most))
			}
		}
		return true, now.Add(lookAgain)
	case fill <= slowFrom:
		if s.full && !s.silent {
			s.events.Write("archive-room", report.F("unsent", a().Unsent), report.F("most", a().Most))
		}
		s.full = false
		return false, time.Time{}
	}
	open := time.Duration((1 - fill) / (1 - slowFrom) * float64(slowSpan))
	at := time.Duration(now.UnixNano()) % slowSpan
	return at >= open, now.Add(slowSpan - at)
}

func (s *space) whyBacklogged(now time.Time) Hindrance {
	return Hindrance{Text: s.backlog(now), Until: "when the store has more of the archive"}
}

// backlog says in words how much waits for the store.
func (s *space) backlog(now time.Time) string {
	a := s.cfg.Backlog.Archived()
	text := fmt.Sprintf("the store, which does not have %s of the archive; the disk may keep %s",
		humanize.Bytes(uint64(max(a.Unsent, 0))), humanize.Bytes(uint64(max(a.Most, 0))))
	if !a.Away.IsZero() {
		text += fmt.Sprintf("; it has not answered for %s", duration(now.Sub(a.Away.Time)))
	}
	if a.Refused != "" {
		text += "; it refuses a file (" + a.Refused + "): mend the cause, and the agent goes on within a minute"
	}
	return text
}

// disk returns the room of the disk and what the archive takes.
func (s *space) disk() Disk {
	d := Disk{Space: s.Space}
	if s.cfg.Backlog != nil {
		d.Archived = s.cfg.Backlog.Archived()
	}
	return d
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
