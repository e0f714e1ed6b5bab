package main

import (
	"context"
	"encoding/json"
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

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// An openedArchive is the archive of crawl directories. If an index lacks captures, temporary files
// have them until Close.
type openedArchive struct {
	*wacz.Archive
	fs                *wacz.FS
	in                *crawls.FS
	places, originals []warc.Place
	tmp               string
	loose             string // shows the WARC files of no crawl; "": there are none
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

// openInputs returns the file system of what the lists of arguments name, and replaces these by their names in it.
func openInputs(ctx context.Context, lists ...[]string) (*crawls.FS, error) {
	in := crawls.New(ctx, disk.OS, crawls.Opener(placeOf("")))
	return in, showInputs(in, lists...)
}

// showInputs replaces the arguments in lists by their names in the file system.
func showInputs(in *crawls.FS, lists ...[]string) error {
	for _, list := range lists {
		for i, arg := range list {
			if wacz.IsURL(arg) {
				continue
			}
			dir, err := in.Dir(arg)
			if err != nil {
				return bad("%v", err)
			}
			list[i] = dir
		}
	}
	return nil
}

// An inputWARCs has the WARC files that a command reads once: those that were named, those of directories of crawls,
// and those in WACZ files.
type inputWARCs struct {
	disk.FS
	files []string
	packs map[string]*wacz.File // by their names
}

// openWARCs opens what args name in a file system. The process ends before its files need to be closed.
func openWARCs(ctx context.Context, errs io.Writer, in *crawls.FS, args []string) (o inputWARCs, err error) {
	packed := wacz.NewFS(in)
	o.packs = map[string]*wacz.File{}
	for _, arg := range args {
		name := wacz.WithoutPassword(arg)
		pack, files, err := packed.Unpacked(ctx, arg)
		switch {
		case err != nil:
			return o, noWACZ(name, arg, err)
		case pack != nil:
			o.packs[name] = pack
		case files == nil:
			if files, err = warcFiles(in, errs, []string{arg}); err != nil {
				return o, err
			}
		}
		o.files = append(o.files, files...)
	}
	o.FS = reading(ctx, errs, packed, o.files...)
	return o, nil
}

// isArchive reports whether path is a crawl directory or a WACZ.
func isArchive(in *crawls.FS, path string) bool {
	is, err := in.IsCrawlDir(path)
	return is && err == nil || wacz.Is(path)
}

// openArchive opens the archive of crawl directories, of killed and running crawls, too, of WACZ files and their URLs,
// and of WARC files. It tells errs about what may be missing, and how far it is if reading takes long.
func openArchive(ctx context.Context, errs io.Writer, in *crawls.FS, paths, originals []string) (_ *openedArchive,
	err error) {
	a := &openedArchive{flaws: flawList{errs: errs}, in: in, fs: wacz.NewFS(in)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	var dirs, loose []string
	for _, path := range paths {
		if isArchive(in, path) {
			dirs = append(dirs, path)
		} else {
			loose = append(loose, path)
		}
	}
	if len(loose) > 0 {
		files, err := warcFiles(in, errs, loose)
		if err != nil {
			return nil, err
		}
		if a.loose, err = in.Gather(files); err != nil {
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				return nil, noWARC(e.Path, err)
			}
			return nil, err
		}
		dirs = append(dirs, a.loose)
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
	is, err := a.in.IsCrawlDir(dir)
	if wacz.Is(dir) && (!is || err != nil) {
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
	switch {
	case err != nil:
		return p, unreadable(name, dir, err, remedy)
	case !is:
		return p, bad("%s: not a crawl directory; "+remedy, name)
	}
	if p, err = a.in.Place(dir); err != nil || len(p.Parts) > 0 {
		return p, err
	}
	pid, err := crawldir.CrawledBy(dir)
	if err != nil {
		pid = 0 // the lock file cannot be read, or belongs to another system
	}
	of := dir + ": "
	if dir == a.loose {
		of = ""
	}
	progress := newSteps(errs)
	long := false
	s, err := warc.WriteSupplement(a.in, dir, tmpDir, func(done, total int64) error {
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
	a.flaws.unsupported(a.in, filepath.Join(dir, "archive"), true)
	for i, f := range s.Flaws.Places {
		s.Flaws.Places[i].File = a.in.Real(filepath.Join(dir, "archive", f.File))
	}
	if s.Flaws.Places != nil {
		_ = a.flaws.take("", &s.Flaws) // it is one of flaws
	}
	switch {
	case pid != 0:
		fmt.Fprintf(errs, "%s is being crawled by process %d; to see later pages, run the command again.\n", dir, pid)
	case s.WARCs > 0 && long && dir != a.loose:
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
	if a.loose != "" {
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

// warcFiles replaces each crawl directory, and each other directory, by its WARC files. If the archive of a crawl is
// empty, it says so to errs: that is no mistake.
func warcFiles(in *crawls.FS, errs io.Writer, args []string) (files []string, err error) {
	for _, arg := range args {
		if info, err := in.Stat(arg); err == nil && !info.IsDir() {
			files = append(files, arg)
			continue
		}
		more, err := in.WARCs(arg)
		if err != nil {
			return nil, noWARC(arg, err)
		}
		files = append(files, more...)
		dir := arg
		if is, err := in.IsCrawlDir(arg); is && err == nil {
			dir = filepath.Join(arg, "archive")
		}
		(&flawList{errs: errs}).unsupported(in, dir, false)
		switch crawled, err := holds(filepath.Dir(dir), "logs"); {
		case len(more) > 0:
		case err == nil && crawled && filepath.Base(dir) == "archive":
			fmt.Fprintf(errs, "orbweaver: %s: the archive is empty%s\n", report.OneLine(dir),
				whyEmptyIn(filepath.Dir(dir)))
		default:
			return nil, bad("%s: no WARC file in this directory; name a WARC file or a crawl directory", dir)
		}
	}
	return files, nil
}

// whyEmptyIn says why the archive of a crawl is empty, as far as the crawl's summary tells; "" if it does not.
func whyEmptyIn(dir string) string {
	r := node.Result{EmptyArchive: true}
	b, err := disk.ReadFile(disk.OS, filepath.Join(dir, "reports", "summary.json"), 16<<20)
	if err != nil || json.Unmarshal(b, &r.Summary) != nil {
		return "; the crawl has written no summary yet"
	}
	return strings.Replace(whyEmpty(r), ", empty", "", 1)
}

// withWARC calls f with the opened file. Its error names the file.
func withWARC(in disk.FS, path string, f func(disk.File) error) error {
	file, err := in.OpenFile(path, os.O_RDONLY, 0)
	if final, open := strings.CutSuffix(path, ".open"); open && errors.Is(err, os.ErrNotExist) {
		file, err = in.OpenFile(final, os.O_RDONLY, 0) // the crawl has finished the file meanwhile
	}
	if errors.Is(err, fs.ErrInvalid) {
		return warc.Refused(path, err)
	}
	if err != nil {
		return noWARC(path, err)
	}
	defer file.Close()
	switch err := f(file); {
	case errors.Is(err, warc.ErrDamaged):
		return fmt.Errorf("%s: %w; \"warc verify\" checks a WARC file from end to end", crawls.Name(path), err)
	case warc.Undecodable(err):
		return withRemedy(warc.Unreadable(crawls.Name(path), err))
	case err != nil:
		return fmt.Errorf("%s: %w", crawls.Name(path), err)
	}
	return nil
}
