package saving

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/image"
)

// A large WARC file has several runs of index lines, and all of them are in an image. The archive and secrets are not.
func TestFiles(t *testing.T) {
	for path, want := range map[string]image.How{
		"state/index/a-00001.cdxj": image.Whole, "state/index/a-00001.cdxj.0003": image.Whole,
		"state/index/a-00001.cdxj.tmp": image.Leave, "crawl-data/news/segments/s/manifest.json": image.Leave,
		"archive/a.warc.gz": image.Leave, "state/api.json": image.Leave, "state/store.json": image.Leave,
		"logs/crawl.log": image.Grows, "crawl.yaml": image.Whole,
	} {
		if got := files.Pick(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
