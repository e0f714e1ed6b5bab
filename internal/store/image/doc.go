// Package image answers: which state of this crawl does the object store have, and which process may replace it?
//
//	Claim -> Take (the files at one instant) -> Save: new pieces -> the image's list -> the pointer
//	Claim -> Restore (the newest image) -> Await (the process before has stopped) -> the crawl goes on
//
// An image is the content of a crawl's folder at one instant, as a kill at that instant would leave it. What recovers a
// crawl after a kill recovers it from an image.
//
// A store has one series of images below a prefix:
//
//	current.json                         the pointer: which claim holds, and the newest image
//	images/GENERATION-CLAIM-ATTEMPT.json the list of an image: files, and the pieces that they consist of
//	packs/GENERATION-CLAIM-ATTEMPT-N.pack  pieces, one after another
//
// A piece is at most 4 MiB of a file, and has a SHA-256. It is sent once: the next image refers to the same piece of
// the same pack. See DESIGN.md for what keeps two processes from crawling at once, and for why removal is safe.
//
// # Invariants
//
//   - The pointer names an image only when the store has said that it has all of its pieces and its list.
//   - Of two claims, only the later one can move the pointer.
//   - A key of a pack or a list is written by one attempt of one claim. A key that was deleted is never written again.
//   - A claim deletes no key of a later claim, and none that the two newest images need.
//   - Restore writes a file only with bytes whose SHA-256 is that of the list. It leaves all files or none.
package image

import (
	"cmp"
	"errors"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// Why an operation fails. Each says what is wrong and what would be right.
var (
	// ErrFenced means that a later claim has taken the series. The process must not fetch any more.
	ErrFenced = errors.New("another process has taken over this crawl: stop this one")
	// ErrUnsure means that the store has not confirmed the claim for too long. Another process may have one by now.
	ErrUnsure = errors.New("the store does not say whether another process has taken over this crawl: check the " +
		"network and the store, then resume")
	// ErrNoFence means that a store cannot replace an object only if nobody else has.
	ErrNoFence = errors.New("the store knows no conditional writes (If-Match, If-None-Match), so two processes could " +
		"crawl at once: use another store, or allow it")
	// ErrNone means that the store has no image.
	ErrNone = errors.New("the store has no saved state below this prefix: check the prefix")
	// ErrDamaged means that an object of an image has another content than was written.
	ErrDamaged = errors.New("the saved state in the store is damaged")
	// ErrOccupied means that a folder has files that Restore would write.
	ErrOccupied = errors.New("the folder has this file already: name an empty folder")
	// ErrBusy means that the files of a folder were replaced while they were opened, several times.
	ErrBusy = errors.New("the folder changes while its state is being read")
	// ErrTooMany means that a folder has too many files that have changed.
	ErrTooMany = errors.New("too many files have changed at once")
)

// A Place is where a series of images is, and how it is used.
type Place struct {
	Store *object.Store
	// Prefix begins all keys: "" or a path that ends with a slash.
	Prefix string
	// Clock measures how long ago the store confirmed the claim. nil: the system's.
	Clock clock.Clock
}

// Config tunes a claim. The zero Config is safe.
type Config struct {
	// Holder says in the store, for people, which process this is.
	Holder string
	// Lease is how long the process may fetch after the store has confirmed its claim. Zero means 30 s. Holds asks the
	// store, and is to be called several times in this duration.
	Lease time.Duration
	// Stop is how long the process takes to stop after Holds has returned an error. Zero means 30 s. The next holder
	// waits for Lease and Stop.
	Stop time.Duration
	// Share is the part of the time in which one goroutine reads, hashes and compresses. 0 or 1: no rest.
	Share float64
	// Unfenced allows a store without conditional writes. Then the user sees to it that one process crawls.
	Unfenced bool
	// Generation is that of the only claim that this one may replace: if another one holds by now, the error is
	// ErrFenced. Zero: whichever holds.
	Generation int64
}

func (c Config) lease() time.Duration { return cmp.Or(c.Lease, 30*time.Second) }

// ends is how long the process may fetch after it was fenced.
func (c Config) ends() time.Duration { return min(c.lease()+cmp.Or(c.Stop, 30*time.Second), longest) }

func (p Place) now() time.Time { return clock.Or(p.Clock).Now() }

// A How says what becomes of a file or a folder.
type How int

const (
	// Leave means that the image does not have it. A folder is not looked into.
	Leave How = iota
	// Whole means that the file is read again if it has changed.
	Whole
	// Grows means that bytes are appended to the file and the others do not change, while one process has it open.
	Grows
	// First is Whole for a file that names others, or places in them, which were written before it: it is opened before
	// them. It is replaced by renaming. What it named is removed only after that.
	First
)

// A Picker says what an image has.
type Picker interface {
	// Pick is asked for each path below the folder, with slashes. That of a folder ends with a slash.
	Pick(path string) How
}

// Saved describes an image, and what it cost to save or restore it.
type Saved struct {
	Generation int64
	Number     int64     // images of a series are numbered from 1
	Taken      time.Time // the instant of the cut, by the clock of the holder
	Files      int
	Bytes      int64  // of the files
	Moved      int64  // bytes of packs that were sent or read
	Note       []byte // what the holder has added to the image
	// Removal says why parts of older images are still in the store. nil: they are not.
	Removal error
}
