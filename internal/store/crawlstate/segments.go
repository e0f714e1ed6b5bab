package crawlstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
)

// The names of files in the folder of a segment, as package segment writes them.
const (
	manifestName = "manifest.json"
	successName  = "_SUCCESS"
	storedName   = "_STORED"
	segmentsName = "segments"
)

// maxManifest bounds a manifest in bytes, and maxMark a mark.
const maxManifest, maxMark = 64 << 20, 64 << 10

// Segments knows which segments of a crawl directory are in an object store. It is the Archive of a Files. One
// goroutine uses it.
type Segments struct {
	fs    disk.FS
	dir   string
	store string          // its URL, as marks have it
	there map[string]bool // folders of stored segments, from the crawl directory, with a slash at the end
	warcs map[string]bool // names of their WARC files, without the ending
}

// NewSegments returns a Segments that knows none. store is the URL that the marks of stored segments hold.
func NewSegments(fsys disk.FS, dir, store string) *Segments {
	return &Segments{fsys, dir, store, map[string]bool{}, map[string]bool{}}
}

// Look finds the segments that were stored since the last call. Call it before each cut. A segment stays stored.
func (s *Segments) Look() error {
	crawls, err := s.folders("crawl-data/")
	for _, crawl := range crawls {
		segments, serr := s.folders(crawl + segmentsName + "/")
		if err = errors.Join(err, serr); err != nil {
			break
		}
		for _, segment := range segments {
			if s.there[segment] {
				continue
			}
			if err := s.look(segment); err != nil {
				return fmt.Errorf("look at the segment %s: %w", segment, err)
			}
		}
	}
	return err
}

// folders lists the folders in a folder, which need not be there.
func (s *Segments) folders(at string) (list []string, err error) {
	entries, err := s.fs.ReadDir(s.path(at))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, at+e.Name()+"/")
		}
	}
	return list, err
}

func (s *Segments) path(at string) string { return filepath.Join(s.dir, filepath.FromSlash(at)) }

// look reads what a segment has, if it is stored.
func (s *Segments) look(at string) error {
	mark, err := disk.ReadFile(s.fs, s.path(at+storedName), maxMark)
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(mark)) != s.store {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := disk.ReadFile(s.fs, s.path(at+manifestName), maxManifest)
	if err != nil {
		return err
	}
	var m struct {
		Files []struct {
			Name string `json:"name"`
		} `json:"files"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	s.there[at] = true
	for _, f := range m.Files {
		if name, ok := strings.CutSuffix(path.Base(f.Name), ".warc.gz"); ok {
			s.warcs[name] = true
		}
	}
	return nil
}

// Pick implements image.Picker.
func (s *Segments) Pick(p string) image.How {
	dir, base := path.Split(p)
	depth := strings.Count(p, "/")
	switch {
	case p == "state/index/":
		return image.Whole
	case dir == "state/index/":
		if name, _, ok := strings.Cut(base, ".cdxj"); ok && s.warcs[name] {
			return image.Whole
		}
	case base == "": // a folder: crawl-data/, one of a crawl, its segments, one of them
		if depth < 3 || depth == 3 && path.Base(p) == segmentsName || s.there[p] {
			return image.Whole
		}
	case s.there[dir] && (base == manifestName || base == successName || base == storedName):
		return image.Whole
	}
	return image.Leave
}
