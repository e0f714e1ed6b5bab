package tables

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// planName is the file of the work folder that says which tables are installed. It is there from the moment when all
// are complete, so that the next call can complete the installation after a kill:
//
//	2026-05          the crawl
//	log              the folder of each table that it has now
//	cc-index/table/cc-main/warc
const planName = "install"

// maxPlan is the longest plan that is read, in bytes.
const maxPlan = 1 << 12

// tablePaths are the folders of all tables. That of the index is the last one: if it is there, all are.
func tablePaths() []string { return append(slices.Clone(otherPaths), indexPath) }

// partition returns the folder of a crawl in a table, below Out.
func partition(table, crawl string) string {
	return filepath.Join(filepath.FromSlash(table), "crawl="+crawl)
}

// check returns ErrThere if a table has this crawl and may not be replaced. A call that repeats one that was killed may
// replace what that one has installed.
func (w *writer) check() error {
	for _, table := range tablePaths() {
		_, err := w.fs.Stat(filepath.Join(w.cfg.Out, partition(table, w.cfg.Crawl)))
		if err == nil && !w.cfg.Overwrite && !w.repeats {
			return ErrThere
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// install gives the tables their names.
func (w *writer) install() error {
	if err := w.check(); err != nil { // the folder may have changed since
		return err
	}
	plan := w.cfg.Crawl + "\n"
	for _, table := range tablePaths() {
		_, err := w.fs.Stat(filepath.Join(w.unfinished(), partition(table, w.cfg.Crawl)))
		if err == nil {
			plan += table + "\n"
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := disk.WriteFile(w.fs, filepath.Join(w.unfinished(), planName), []byte(plan)); err != nil {
		return err
	}
	_, err := w.complete()
	w.keep = err != nil
	return err
}

// complete moves the tables of a plan to their names, and what was there into the work folder. It returns the name of
// the crawl, or "" if there is no plan. Each step may have been done before.
func (w *writer) complete() (crawl string, err error) {
	work := w.unfinished()
	text, err := disk.ReadFile(w.fs, filepath.Join(work, planName), maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	crawl, list, _ := strings.Cut(string(text), "\n")
	if err := ValidName(crawl); err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Join(work, planName), err)
	}
	have := strings.Fields(list)
	for i, table := range tablePaths() {
		from, to := filepath.Join(work, partition(table, crawl)), filepath.Join(w.cfg.Out, partition(table, crawl))
		if slices.Contains(have, table) {
			if _, err := w.fs.Stat(from); errors.Is(err, fs.ErrNotExist) {
				continue // it has its name
			} else if err != nil {
				return "", err
			}
		}
		err := w.fs.Rename(to, filepath.Join(work, fmt.Sprintf("old%d", i)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if !slices.Contains(have, table) {
			continue
		}
		if err := w.fs.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return "", err
		}
		if err := w.fs.Rename(from, to); err != nil {
			return "", err
		}
	}
	return crawl, nil
}

// unfinished is the work folder.
func (w *writer) unfinished() string { return filepath.Join(w.cfg.Out, "unfinished") }

// recover completes what a killed call has begun to install.
func (w *writer) recover() error {
	crawl, err := w.complete()
	w.repeats = crawl == w.cfg.Crawl && crawl != ""
	w.keep = err != nil
	return err
}
