package past

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/broken"
	"github.com/orbweaver/orbweaver/internal/report/warclinks"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// maxMarker bounds the marker, which has the settings of a crawl.
const maxMarker = 16 << 20

// Lacked reports that the run before did not fetch requisites, and that it did not follow sitemaps. A Go program knows
// its own settings: nothing lacks in its crawls.
func Lacked(fsys disk.FS, dir string) (requisites, sitemaps bool, err error) {
	b, err := disk.ReadFile(fsys, filepath.Join(dir, crawldir.Marker), maxMarker)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	text := "\n" + string(b)
	if err != nil || strings.HasPrefix(text, "\n"+crawldir.ProgramMark) {
		return false, false, err
	}
	return !strings.Contains(text, "\nrequisites: true\n"), strings.Contains(text, "\nsitemaps: false\n"), nil
}

// An Intake accepts what archived pages need. It knows which of it was fetched.
type Intake interface {
	Requisites(page link.Link, files []parse.Link) error
	Secure() error
}

// Notes tell the operator something.
type Notes interface{ Note(text string) }

// A Repair fetches what the archived pages of a bare crawl need.
type Repair struct {
	FS         disk.FS
	Dir        string
	Clock      clock.Clock
	Notes      Notes
	Agent      string // product token of the crawler, for robots directives on pages
	MaxDecoded int64  // as in warclinks.Config
}

// sayEvery is how long Run reads before it says again how far it is.
const sayEvery = 30 * time.Second

// Run passes what the archived pages need to an intake. visited is how many pages the crawl has visited, and pending
// returns how many URLs wait. The error is one of the disk or of the intake, or that of ctx.
func (r *Repair) Run(ctx context.Context, visited int64, pending func() int64, in Intake) error {
	r.Notes.Note("reads the archive for the images, styles and scripts of " + report.Count(visited, "page"))
	files, err := archiveFiles(r.FS, r.Dir)
	if err != nil {
		return err
	}
	said, before, pages := r.Clock.Now(), pending(), int64(0)
	res, err := warclinks.Requisites(ctx, files, warclinks.Config{
		FS: r.FS, MaxDecoded: r.MaxDecoded, Parse: parse.Options{Agent: r.Agent},
		Sort: extsort.Config{FS: r.FS, Prefix: filepath.Join(r.Dir, "state", "spill", "repair-"), Memory: 16 << 20,
			Stop: ctx},
		Step: func(done, total int64) {
			if now := r.Clock.Now(); now.Sub(said) >= sayEvery {
				said = now
				r.Notes.Note(fmt.Sprintf("has read %d %% of the archive", 100*done/max(total, 1)))
			}
		},
	}, func(page link.Link, files []parse.Link) error {
		pages++
		return in.Requisites(page, files)
	})
	if err == nil {
		err = in.Secure()
	}
	if err != nil {
		return fmt.Errorf("read the archive for requisites: %w", err)
	}
	r.Notes.Note("queued " + report.Count(max(pending()-before, 0), "file") + " that archived pages need")
	r.noteMissing(visited-pages, res)
	return nil
}

// noteMissing says which pages have not got their files. missing is the number of visited pages that are not in the
// archive.
func (r *Repair) noteMissing(missing int64, res warclinks.Result) {
	if missing > 0 {
		r.Notes.Note(fmt.Sprintf("the archive has no record of %s, so the images, styles and scripts stay missing; if "+
			"files of the archive come back, resume once without requisites and then with them",
			report.Count(missing, "page")))
	}
	if res.NoOriginal > 0 {
		r.Notes.Note(fmt.Sprintf("the archive has only the revisit record of %s, and no original, so the images, "+
			"styles and scripts stay missing", report.Count(res.NoOriginal, "page")))
	}
	if res.Cut > 0 {
		r.Notes.Note(fmt.Sprintf("%s got only a part of the images, styles and scripts, because the body is too long "+
			"or damaged", report.Count(res.Cut, "page")))
	}
	if res.Damaged > 0 {
		r.Notes.Note(fmt.Sprintf("the archive is damaged: %s could not be read; the first: %s",
			report.Count(res.Damaged, "place"), report.OneLine(res.First)))
	}
}

// archiveFiles returns the WARC files of the archive, in the order of their names; none if there is no archive.
func archiveFiles(fsys disk.FS, dir string) (files []string, err error) {
	all, err := warc.Files(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range all {
		files = append(files, f.Path)
	}
	return files, err
}

// maxSearched bounds each of the files that Barren searches, in bytes, and the archive.
const maxSearched = 1 << 20

var errPage = errors.New("the archive has a page")

// Barren reports that nothing is lost if another crawl takes the directory: it holds the crawl of an agent alone that
// has fetched no page and got no order. ended says that its last run ended so, by its own account. Otherwise it was
// killed, and logs and archive must show the whole crawl.
func Barren(fsys disk.FS, dir string, ended bool) bool {
	if _, err := fsys.Stat(filepath.Join(dir, "state", "outbox")); !errors.Is(err, fs.ErrNotExist) {
		return false // other agents may know of it
	}
	var s report.Summary
	b, err := disk.ReadFile(fsys, filepath.Join(dir, "reports", "summary.json"), 16<<20)
	if err == nil {
		err = json.Unmarshal(b, &s)
	} else if !ended && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || s.Pages+s.Files > 0 {
		return false
	}
	events, err := disk.ReadFile(fsys, filepath.Join(dir, "logs", "events.jsonl"), maxSearched)
	first, _, _ := strings.Cut(string(events), "\n")
	if err != nil || !strings.Contains(first, `"event":"started"`) ||
		bytes.Contains(events, []byte(`"event":"order"`)) || bytes.Contains(events, []byte(`"event":"command"`)) {
		return false
	}
	return ended || showsNoPage(fsys, dir)
}

// showsNoPage reports that neither the log nor the archive of a crawl has a page, and that no part of them is
// elsewhere.
func showsNoPage(fsys disk.FS, dir string) bool {
	logs, err := fsys.ReadDir(filepath.Join(dir, "logs"))
	for _, e := range logs {
		if !slices.Contains([]string{"crawl.log", "crawl.jsonl", "events.jsonl"}, e.Name()) {
			return false
		}
	}
	b, bad := disk.ReadFile(fsys, filepath.Join(dir, "logs", "crawl.log"), maxSearched)
	if err != nil || bad != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 || strings.HasPrefix(f[1], "2") && !strings.HasSuffix(f[4], "P") {
			return false
		}
	}
	files, err := archiveFiles(fsys, dir)
	all, bad := fsys.ReadDir(filepath.Join(dir, "archive"))
	indexed, worse := fsys.ReadDir(filepath.Join(dir, "state", "index")) // of files that are complete
	archived := 0
	for _, name := range files {
		if filepath.Dir(name) == filepath.Join(dir, "archive") { // the others are in segments
			archived++
		}
	}
	if err != nil || bad != nil || worse != nil || archived != len(all) || len(indexed) > len(files) {
		return false
	}
	size := int64(0)
	for _, name := range files {
		st, err := fsys.Stat(name)
		if err != nil || !st.Mode().IsRegular() {
			return false
		}
		size += st.Size()
	}
	if size > maxSearched {
		return false
	}
	res, err := warclinks.Requisites(context.Background(), files, warclinks.Config{FS: fsys},
		func(link.Link, []parse.Link) error { return errPage })
	return err == nil && res.Damaged == 0
}

// Bounds of the link log that WriteBroken reads, in bytes. The first takes about a minute. A supervisor that has sent a
// signal waits for less.
const (
	maxLinkLog      = 1 << 30
	maxLinkLogHurry = 64 << 20
)

// WriteBroken writes the list of broken URLs. hurry bounds its work, because somebody waits for the end of the process.
func WriteBroken(fsys disk.FS, dir string, hurry bool) error {
	cfg := broken.Config{FS: fsys, MaxLinkLog: maxLinkLog}
	if hurry {
		cfg.MaxLinkLog = maxLinkLogHurry
	}
	_, err := broken.Write(dir, cfg)
	return err
}
