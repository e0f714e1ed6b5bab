package saving

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// While a process waits for the claim of the one before, it has the directory locked: a second one claims nothing, and
// the first one crawls. A person is told of the wait, and so is a process that reads the directory.
func TestWaitInLockedDirectory(t *testing.T) {
	among(t, func(f *family) {
		f.save("a2", note{Boot: 3})
		k := f.keeper("a2", "/new")
		var notes []string
		series := k.Series
		series.Notes = Told(func(text string) { notes = append(notes, text) })
		began, fetched := time.Now(), make(chan error, 1)
		go func() { fetched <- Bring(f.t.Context(), series, true) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if text := Waits(f.mem, "/new"); !strings.HasPrefix(text, "waits until 2000-01-01T00:01:") {
			f.t.Errorf("Waits says %q", text)
		}
		if len(notes) == 0 || !strings.HasPrefix(notes[0], "waiting 1m") {
			f.t.Errorf("notes %q", notes)
		}
		other := series
		other.Crawl = ""
		if err := Bring(f.t.Context(), other, true); err != nil {
			f.t.Errorf("there is a crawl already: %v", err)
		}
		if _, err := Fetch(f.t.Context(), other); !errors.Is(err, disk.ErrLocked) {
			f.t.Errorf("a second process: %v", err)
		}
		must.Do(f.t, <-fetched)
		if took := time.Since(began); took < time.Minute || Waits(f.mem, "/new") != "" {
			f.t.Errorf("after %v: %q", took, Waits(f.mem, "/new"))
		}
		must.Do(f.t, k.Open(f.t.Context(), true, false))
		must.Do(f.t, k.saver.Hold().Holds(f.t.Context()))
	})
}

// A process that takes a series over in a directory of its own waits, too, and says so in the same way.
func TestOpenTellsOfItsWait(t *testing.T) {
	among(t, func(f *family) {
		f.save("a2", note{Boot: 3})
		k := f.keeper("a2", "/new")
		must.Do(f.t, f.mem.MkdirAll("/new/state", 0o755))
		var notes []string
		k.Notes = Told(func(text string) { notes = append(notes, text) })
		opened := make(chan error, 1)
		go func() { opened <- k.Open(f.t.Context(), false, true) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if text := Waits(f.mem, "/new"); !strings.HasPrefix(text, "waits until ") {
			f.t.Errorf("Waits says %q", text)
		}
		if text := strings.Join(notes, "\n"); !strings.Contains(text, "waiting 1m") {
			f.t.Errorf("notes %q", notes)
		}
		must.Do(f.t, <-opened)
		if text := Waits(f.mem, "/new"); text != "" {
			f.t.Errorf("Waits says %q", text)
		}
	})
}
