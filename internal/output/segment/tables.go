package segment

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/output/tables"
)

// The tables of a segment: Committer.Tables.
const (
	NoTables  = "none"
	IndexOnly = "index" // the table of the index alone
	AllTables = "all"   // those of the logs, too
)

// TableKinds returns the values of Committer.Tables.
func TableKinds() []string { return []string{AllTables, IndexOnly, NoTables} }

// A Table is a Parquet file with rows of a segment. It is not in the folder of the segment.
type Table struct {
	Name   string `json:"name"` // below the crawl directory, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hexadecimal
	Rows   int64  `json:"rows"`
}

// tablesList is the list of the files of the table of the index, as Common Crawl has it.
const tablesList = "cc-index-table.paths.gz"

// tables writes the tables of a segment, and adds them to its manifest. A commit that was not completed may have left
// some, which are replaced or removed.
func (w *work) tables(ctx context.Context, folder string, m *Manifest) error {
	kind := cmp.Or(w.Tables, NoTables)
	if kind == NoTables {
		return tables.RemoveSegment(w.fs, w.Dir, m.Crawl, m.Segment)
	}
	files, left, err := tables.WriteSegment(ctx, tables.SegmentConfig{FS: w.fs, Root: w.Dir, Folder: folder,
		Crawl: m.Crawl, Segment: m.Segment, Logs: kind == AllTables, Pace: &w.pace})
	if err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	for _, l := range left {
		m.LeftOut += l.Lines
	}
	for _, f := range files {
		t := Table{Name: f.Name, Rows: f.Rows}
		if t.Bytes, t.SHA256, err = w.sum(ctx, filepath.Join(w.Dir, filepath.FromSlash(f.Name))); err != nil {
			return err
		}
		m.Tables = append(m.Tables, t)
		m.Bytes += t.Bytes
	}
	slices.SortFunc(m.Tables, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// isTable reports whether a name is that of a file with rows of this segment. A manifest of others must not name
// another file.
func (m *Manifest) isTable(name string) bool {
	of, ok := tables.SegmentOf(name)
	return ok && of == m.Segment && strings.HasPrefix(name, tables.SegmentTables+"/")
}

// indexTable returns the folder of the table of the index of a crawl, with a slash at its end.
func indexTable(crawl string) string { return tables.IndexPath + "/crawl=" + crawl + "/" }
