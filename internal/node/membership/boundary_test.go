package membership

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
)

// A crawl whose pages do not move is not resumed where pages wait for other agents: their URLs would be fetched again,
// and a server may have gone by then.
func TestNoPageWaits(t *testing.T) {
	mem := testdisk.NewMem()
	open := func(boundary string) error {
		cfg := &Config{Partition: PartitionTopic, Boundary: boundary}
		store, err := newMembership(cfg, Place{FS: mem, Dir: testparts.Dir, Clock: clock.System}, nil).OpenStore(1)
		if store != nil {
			err = errors.Join(err, store.Close())
		}
		return err
	}
	for _, boundary := range []string{BoundaryContents, BoundaryURLs} {
		if err := open(boundary); err != nil {
			t.Errorf("boundary %s in a new directory: %v", boundary, err)
		}
	}
	archive := filepath.Join(testparts.Dir, boundaryDir, "archive")
	must.Do(t, mem.MkdirAll(archive, 0o755))
	must.Do(t, disk.WriteFile(mem, filepath.Join(archive, "boundary-1.warc.gz"), []byte("page")))
	for boundary, want := range map[string]string{BoundaryContents: "",
		BoundaryURLs: "resume with boundary contents"} {
		err := open(boundary)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("boundary %s where pages wait: %v, want %q", boundary, err, want)
		}
	}
}
