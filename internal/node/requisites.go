package node

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// maxMarker bounds the marker, which has the settings of a crawl.
const maxMarker = 16 << 20

// wasBare reports that this run fetches requisites and the run before did not. Call it before the marker of the run
// before is replaced. A Go program knows its own settings.
func (a *Agent) wasBare() (bool, error) {
	if !a.cfg.Resume || !a.cfg.Crawl.Requisites {
		return false, nil
	}
	b, err := disk.ReadFile(a.fs, a.dir(crawldir.Marker), maxMarker)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	text := string(b)
	return err == nil && !strings.Contains("\n"+text, "\nrequisites: true\n") &&
		!strings.HasPrefix(text, crawldir.ProgramMark), err
}

// noteBare tells how many pages have come without their files: pages that were visited are not parsed again.
func (a *Agent) noteBare() {
	if pages := a.parts.Tally.Pages(); pages > 0 && a.cfg.Note != nil {
		a.cfg.Note(fmt.Sprintf("requisites come with the pages that are visited from now on; %s came without images, "+
			"styles and scripts, and nothing visits them again. To get these, start a crawl in another directory, "+
			"with the settings in %s", report.Count(pages, "page"), a.dir(crawldir.Marker)))
	}
}
