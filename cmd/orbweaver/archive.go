package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// An openedArchive is the archive of crawl directories. If an index lacks captures, temporary files
// have them until Close.
type openedArchive struct {
	*wacz.Archive
	fs                *wacz.FS
	places, originals []warc.Place
	tmp               string
	loose             map[string]string // WARC files of no crawl, by their names in tmp/files/archive
	flaws             flawList
}

// Close removes the temporary files.
func (a *openedArchive) Close() error {
	err := a.fs.Close()
	if a.tmp == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(a.tmp))
}

// isArchive reports whether path is a crawl directory or a WACZ.
func isArchive(path string) bool { return isCrawlDir(path) || wacz.Is(path) }

// openArchive opens the archive of crawl directories, of killed and running crawls, too, of WACZ files and their URLs,
// and of WARC files. It tells errs about what may be missing, and how far it is if reading takes long.
func openArchive(ctx context.Context, errs io.Writer, paths, originals []string) (_ *openedArchive, err error) {
	a := &openedArchive{flaws: flawList{errs: errs}, fs: wacz.NewFS()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	dirs := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !isArchive(path) })
	loose := slices.DeleteFunc(slices.Clone(paths), isArchive)
	if len(loose) > 0 {
		files, err := warcFiles(errs, loose)
		if err != nil {
			return nil, err
		}
		dir, err := a.gather(files)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	for i, dir := range slices.Concat(dirs, originals) {
		name := dir
		if i >= len(dirs) {
			name = "--originals " + dir
		}
		p, err := a.place(ctx, errs, dir, name, i)
		if err != nil {
			return nil, err
		}
		if i < len(dirs) {
			a.places = append(a.places, p)
		} else {
			a.originals = append(a.originals, p)
		}
	}
	a.Archive = a.fs.Archive(a.places, a.originals)
	return a, nil
}

// gather makes a directory that is like one of a crawl, whose archive has links to WARC files.
func (a *openedArchive) gather(files []string) (dir string, err error) {
	if a.tmp, err = temporary("orbweaver-index-"); err != nil {
		return "", err
	}
	dir = filepath.Join(a.tmp, "files")
	if err := os.MkdirAll(filepath.Join(dir, "archive"), 0o700); err != nil {
		return "", err
	}
	a.loose = map[string]string{}
	have := map[string]int{} // files by the name that they have when they are finished
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a regular file")
		}
		if err != nil {
			return "", noWARC(file, err)
		}
		stem, open := strings.CutSuffix(filepath.Base(file), ".open")
		stem = strings.TrimSuffix(strings.TrimSuffix(stem, ".gz"), ".warc")
		unique := stem
		for have[unique] > 0 {
			have[stem]++
			unique = fmt.Sprintf("%s~%d", stem, have[stem])
		}
		have[unique]++
		name := unique + ".warc.gz" // also if it is not compressed
		if open {
			name += ".open"
		}
		a.loose[name] = file
		if err := os.Symlink(path, filepath.Join(dir, "archive", name)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// origin returns the file that the user has named if path is a link of gather, or else path.
func (a *openedArchive) origin(path string) string {
	if a.tmp != "" && filepath.Dir(path) == filepath.Join(a.tmp, "files", "archive") {
		return a.loose[filepath.Base(path)]
	}
	return path
}

// place finds the captures of a crawl directory that its index lacks. name is how the command line
// names the directory, and i its number.
func (a *openedArchive) place(ctx context.Context, errs io.Writer, dir, name string, i int) (p warc.Place, err error) {
	tmpDir := func() (string, error) {
		if a.tmp == "" {
			if a.tmp, err = temporary("orbweaver-index-"); err != nil {
				return "", err
			}
		}
		tmp := filepath.Join(a.tmp, strconv.Itoa(i))
		return tmp, os.Mkdir(tmp, 0o700)
	}
	if wacz.Is(dir) && !isCrawlDir(dir) {
		name = wacz.WithoutPassword(name)
		p, file, err := a.fs.Add(ctx, dir, tmpDir)
		if err != nil {
			return p, noWACZ(name, dir, err)
		}
		for _, warning := range file.Warnings() {
			fmt.Fprintf(errs, "orbweaver: warning: %s: %s\n", report.OneLine(name), warning)
		}
		return p, nil
	}
	const remedy = "give one that contains the directory archive"
	switch is, err := holds(dir, "archive"); {
	case err != nil:
		return p, unreadable(name, dir, err, remedy)
	case !is:
		return p, bad("%s: not a crawl directory; "+remedy, name)
	}
	pid, err := crawldir.CrawledBy(dir)
	if err != nil {
		pid = 0 // the lock file cannot be read, or belongs to another system
	}
	gathered, of := a.tmp != "" && filepath.Dir(dir) == a.tmp, dir+": "
	if gathered {
		of = ""
	}
	progress := newSteps(errs)
	long := false
	s, err := warc.WriteSupplement(nil, dir, tmpDir, func(done, total int64) error {
		long = progress.say("%sreading archive files that no index has: %s of %s", of,
			humanize.Bytes(uint64(done)), humanize.Bytes(uint64(total))) || long
		return ctx.Err()
	})
	switch {
	case errors.Is(err, context.Canceled):
		return p, &exitError{exitSignal, "stopped"}
	case errors.Is(err, fs.ErrPermission):
		return p, unreadable(name, dir, err, "")
	case err != nil:
		return p, err
	}
	a.flaws.unsupported(filepath.Join(dir, "archive"), true)
	for i, f := range s.Flaws.Places {
		s.Flaws.Places[i].File = a.origin(filepath.Join(dir, "archive", f.File))
	}
	if s.Flaws.Places != nil {
		_ = a.flaws.take("", &s.Flaws) // it is one of flaws
	}
	switch {
	case pid != 0:
		fmt.Fprintf(errs, "%s is being crawled by process %d; to see later pages, run the command again.\n", dir, pid)
	case s.WARCs > 0 && long && !gathered:
		fmt.Fprintf(errs, "%s: to keep the new index, run: orbweaver warc index %[1]s\n", dir)
	}
	return warc.Place{Dir: dir, Extra: s.Path}, nil
}

// noWACZ is the error of a WACZ that cannot be opened.
func noWACZ(name, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return unreadable(name, path, err, "name a WACZ file, its URL, a WARC file or a crawl directory")
	}
	return &exitError{exitOther, fmt.Sprintf("%s: %v", report.OneLine(name), cause(err))}
}

// pages refuses an archive that has no capture of a web page or file.
func (a *openedArchive) pages(ctx context.Context) error {
	empty, err := a.Empty(ctx)
	if err != nil || !empty {
		return err
	}
	if len(a.loose) > 0 {
		return &exitError{exitOther, "the WARC files hold no page to show; see \"orbweaver warc ls\", or give others"}
	}
	var dirs []string
	for _, p := range a.places {
		dirs = append(dirs, p.Dir)
	}
	return &exitError{exitOther, fmt.Sprintf("%s: the archive is empty: nothing was fetched, or nothing matched "+
		"--keep\nSee \"orbweaver report %s\".", strings.Join(dirs, ", "), dirs[0])}
}

// withRemedy adds to an error about a record what the user can do.
func withRemedy(err error) error {
	e, ok := errors.AsType[*warc.UnreadableError](err)
	switch {
	case !ok:
		return err
	case warc.Undecodable(err):
		return fmt.Errorf("%w; without --payload, the command prints the record as it is stored", err)
	}
	return fmt.Errorf("%w; %s", err, remedyFor(e.Path, errors.Is(err, fs.ErrNotExist)))
}

// remedyFor returns what the user can do about a WARC file that is missing or damaged.
func remedyFor(path string, missing bool) string {
	if missing {
		return "restore the file, such as from a backup"
	}
	return "see: orbweaver warc verify " + path
}
