package wacz

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// stem is Out without its extension.
func (w *writer) stem() string { return strings.TrimSuffix(w.Out, ".wacz") }

// list is the name of the file that lists several WACZ files.
func (w *writer) list() string { return w.stem() + ".json" }

// numbered is the name of one of several WACZ files.
func (w *writer) numbered(i int) string { return fmt.Sprintf("%s-%05d.wacz", w.stem(), i) }

// series returns the files that have a name like one of several WACZ files.
func (w *writer) series() (names []string, err error) {
	dir := filepath.Dir(w.Out)
	entries, err := w.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), filepath.Base(w.stem())+"-")
		if number, wacz := strings.CutSuffix(number, ".wacz"); ok && wacz && len(number) >= 5 &&
			strings.Trim(number, "0123456789") == "" {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, err
}
