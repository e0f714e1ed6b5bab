package saving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
)

// lock makes Dir and locks it for this process, as an agent does. The error is a disk.ErrLocked if another process has
// it open: that one may have claimed the series, and wait.
func (s *Series) lock() (io.Closer, error) {
	fsys, state := s.disk(), filepath.Join(s.Dir, "state")
	if err := fsys.MkdirAll(state, 0o755); err != nil {
		return nil, crawldir.Denied(s.Dir, err)
	}
	lock, err := disk.Lock(fsys, state)
	if errors.Is(err, disk.ErrLocked) && fsys == disk.OS {
		err = cmp.Or(crawldir.Vacant(s.Dir), err)
	}
	return lock, err
}

// until returns when Await of a saver ends; zero: it does not wait.
func until(p image.Place, saver *image.Saver) time.Time {
	if wait := saver.Waits(); wait > 0 {
		return clock.Or(p.Clock).Now().Add(wait).UTC().Truncate(time.Second).Add(time.Second)
	}
	return time.Time{}
}

// await waits until no earlier process of the series can fetch. It says so to a person, and in Dir, for Waits. own is
// what the directory says of the run until then.
func (s *Series) await(ctx context.Context, p image.Place, saver *image.Saver, own ownRun) error {
	if own.Until = until(p, saver); !own.Until.IsZero() {
		if s.Notes != nil {
			s.Notes.Note(fmt.Sprintf("waiting %s: by then a process that had this crawl before has stopped",
				saver.Waits().Round(time.Second)))
		}
		if err := writeRun(s.disk(), s.Dir, p, saver, own); err != nil {
			return err
		}
	}
	return saver.Await(ctx)
}

// Waits says what a process waits for that has the directory of a crawl open and does not crawl yet; "": it does not
// wait for the store, or the directory does not tell.
func Waits(fsys disk.FS, dir string) string {
	own, err := readRun(cmp.Or(fsys, disk.OS), dir)
	if err != nil || own.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf("waits until %s before it crawls in %s: %s does not say that the process before has stopped, "+
		"and by then it has", own.Until.Format(time.RFC3339), dir, own.Store)
}
