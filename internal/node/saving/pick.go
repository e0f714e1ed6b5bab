package saving

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/crawlstate"
	"github.com/orbweaver/orbweaver/internal/store/image"
)

// files are the files of a crawl directory that an image has.
var files = crawlstate.Files{Archive: archive{}}

// archive picks what an image has of the archive: the index of each finished WARC file. At a cut all WARC files are
// finished, and the image counts only when the store has them. Fetch brings the manifests of their segments from there.
type archive struct{}

func (archive) Pick(path string) image.How {
	if strings.HasPrefix(path, "state/index/") {
		return image.Whole
	}
	return image.Leave
}

// logs are the logs that may be ahead of the journal.
type logs struct{}

func (logs) Pick(path string) image.How {
	if strings.HasPrefix(path, "logs/") || strings.HasPrefix(path, "links/") {
		return image.Grows
	}
	return image.Leave
}
