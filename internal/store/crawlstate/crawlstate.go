// Package crawlstate answers: which files of a crawl directory does another machine need to go on with the crawl?
//
// DESIGN.md has the table with the reasons. What is made anew from other files is left out, and so are secrets, locks
// and the WARC files, which the store has in segments.
package crawlstate

import (
	"path"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/image"
)

// A Rule says what becomes of the paths that match a pattern.
type Rule struct {
	// Pattern is one of path.Match, or a folder with a slash at its end: the folder and all below it.
	Pattern string
	How     image.How
	// Asked means that Files.Archive decides.
	Asked bool
}

// Rules are in order: the first that matches holds. What no rule names is left out at the top of a crawl directory, and
// saved below state: a new part of the state is not forgotten.
var Rules = []Rule{
	{Pattern: "*.tmp"},
	{Pattern: "crawl.yaml", How: image.Whole},
	{Pattern: "logs/crawl.jsonl"},
	{Pattern: "logs/", How: image.Grows},
	{Pattern: "links/*.open", How: image.Grows},
	{Pattern: "links/", How: image.Whole},
	{Pattern: "reports/skipped.jsonl", How: image.Grows},
	{Pattern: "reports/", How: image.Whole},
	{Pattern: "crawl-data/", Asked: true},
	{Pattern: "cc-index/"},
	{Pattern: "archive/"},
	{Pattern: "indexes/"},
	{Pattern: "tables/"},
	{Pattern: "state/lock"},
	{Pattern: "state/api.json"},
	{Pattern: "state/api-reader.json"},
	{Pattern: "state/api-reader.token"},
	{Pattern: "state/queues/"},
	{Pattern: "state/strategy/"},
	{Pattern: "state/outbox/"},
	{Pattern: "state/pagebox/"},
	{Pattern: "state/shipping/"},
	{Pattern: "state/shipping-ends/"},
	{Pattern: "state/replica/"},
	{Pattern: "state/sites/"},
	{Pattern: "state/spill/"},
	{Pattern: "state/lost/"},
	{Pattern: "state/index/", Asked: true},
	{Pattern: "state/journal/snapshot-*", How: image.First},
	{Pattern: "state/journal/journal-*", How: image.Grows},
	{Pattern: "state/journal/", How: image.Whole},
	{Pattern: "state/seen/"},
	{Pattern: "state/store.json"},
	{Pattern: "state/adopted/"},
	{Pattern: "state/handed/"},
	{Pattern: "state/handed-pages/"},
	{Pattern: "state/near/manifest", How: image.First},
	{Pattern: "state/near/spill-*"},
	{Pattern: "state/near/near", How: image.Grows},
	{Pattern: "state/near/", How: image.Whole},
	{Pattern: "state/contents/manifest", How: image.First},
	{Pattern: "state/contents/spill-*"},
	{Pattern: "state/contents/first", How: image.Grows},
	{Pattern: "state/contents/", How: image.Whole},
	{Pattern: "state/earlier/sort-*"},
	{Pattern: "state/earlier/", How: image.Whole},
	{Pattern: "state/applications/*/acknowledged", How: image.First},
	{Pattern: "state/applications/", How: image.Grows},
	{Pattern: "state/boundary/", How: image.Whole},
	{Pattern: "state/kept/", How: image.Whole},
	{Pattern: "state/seeds.txt", How: image.Whole},
	{Pattern: "state/strategy.txt", How: image.Whole},
	{Pattern: "state/agent.json", How: image.Whole},
	{Pattern: "state/gone.json", How: image.Whole},
	{Pattern: "state/orders", How: image.Whole},
	{Pattern: "state/history", How: image.Whole},
	{Pattern: "state/", How: image.Whole},
}

// Files picks the files of a crawl directory. It is an image.Picker.
type Files struct {
	// Archive decides about crawl-data/ and state/index/. A finish in the journal counts on resume if the index of its
	// WARC file is here. nil: no archive is kept, and all pages are fetched again.
	Archive image.Picker
}

// Pick implements image.Picker.
func (f Files) Pick(p string) image.How {
	for _, r := range Rules {
		if !r.matches(p) {
			continue
		}
		if r.Asked && f.Archive != nil {
			return f.Archive.Pick(p)
		}
		return r.How
	}
	return image.Leave
}

// Named reports whether a rule names a path, besides the last one.
func Named(p string) bool {
	for _, r := range Rules[:len(Rules)-1] {
		if r.matches(p) {
			return true
		}
	}
	return false
}

// matches reports whether the rule holds for a path. A folder that has files of a rule for files is not left out by it.
func (r Rule) matches(p string) bool {
	if folder, ok := strings.CutSuffix(r.Pattern, "/"); ok {
		return strings.HasPrefix(p, folder+"/")
	}
	if strings.HasSuffix(p, "/") {
		return false
	}
	if !strings.Contains(r.Pattern, "/") && strings.HasPrefix(r.Pattern, "*") { // at any depth
		p = path.Base(p)
	}
	ok, _ := path.Match(r.Pattern, p) // the tests have tried all patterns
	return ok
}
