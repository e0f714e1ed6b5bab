package crawls

import (
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Unsupported says of the files in a folder that look like archives and are not read, why, and what to do. In the
// archive of a crawl, these include plain WARC files. A folder that cannot be read has none.
func Unsupported(fsys disk.FS, dir string, crawl bool) (texts []string) {
	entries, _ := fsys.ReadDir(dir) // the caller reads it, too
	for _, e := range entries {
		why := ""
		switch name := strings.ToLower(e.Name()); {
		case strings.HasSuffix(name, ".arc"), strings.HasSuffix(name, ".arc.gz"):
			why = "ARC is not supported; make a .warc.gz file of it, such as with \"warcio recompress\""
		case strings.HasSuffix(name, ".warc.zst"):
			why = ".warc.zst is not supported; decompress it with \"zstd -d\", then use \"warcio recompress\""
		case strings.HasSuffix(name, ".wacz"):
			why = "a WACZ is not read here; name the WACZ itself"
		case crawl && strings.HasSuffix(name, ".warc"):
			why = "in a crawl directory, a plain WARC file is not supported; make a .warc.gz file of it, such as " +
				"with \"warcio recompress\""
		default:
			continue
		}
		texts = append(texts, filepath.Join(dir, e.Name())+": "+why)
	}
	return texts
}
