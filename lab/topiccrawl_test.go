package lab

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// TestTopicFigures: five kept pages of two categories at two agents, and one that is on its way. The second agent found
// page 4 before the first one, which keeps it, came to its own link; and it has not told the first one of page 3 yet.
//
//	0 (A, seed) -> 1 (A), 2 (B)    1 -> 3 (B), 4 (A), 5    2 -> 3, 4
func TestTopicFigures(t *testing.T) {
	page := func(category, via int, fetchers uint64) crawledPage {
		return crawledPage{category: category, keeper: category, via: int64(via), fetchers: fetchers, bytes: 10,
			digest: [20]byte{byte(16 * (category + 3*via + 3))}}
	}
	x := &topicPages{names: []string{"A", "B"}, agents: 2,
		pages: []crawledPage{page(0, none, 0b10), page(0, 0, 0b01), page(1, 0, 0b01), page(1, 2, 0b10),
			page(0, 2, 0b10),
			{category: none, keeper: none, via: 1, fetchers: 0b01}},
		links: [][2]uint32{{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {1, 5}}}
	f := must.Get(x.figures())(t)
	for what, pair := range map[string][2]any{
		"by crawlers": {f.ByCrawlers, []int{0, 3, 2}},
		"by agents":   {f.ByAgents, []int{0, 3, 2}},
		"logged":      {f.Logged, []int{0, 5, 0}},
		"check": {f.Check, TopicCheck{Fetched: 6, Kept: 5, Fetches: 5, Derived: 7, Equal: 3, Spared: 1,
			Undone: 1}},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	// Pages that follow each other have rising ranks, within the category as in all pages.
	one := 1.0
	want := []TopicCategory{
		{TopicPart: TopicPart{"A", 3, classify.Share{Right: 2, Of: 4}, &one}, Retained: 2, Imported: 1,
			RetainedBytes: 20, ImportedBytes: 10, Fetches: classify.Share{Right: 3, Of: 5}},
		{TopicPart: TopicPart{"B", 2, classify.Share{Right: 1, Of: 2}, &one}, Retained: 1, Imported: 1,
			RetainedBytes: 10, ImportedBytes: 10, Fetches: classify.Share{Right: 1, Of: 2}},
	}
	for i := range f.Categories {
		f.Categories[i].Random = nil
	}
	if diff := cmp.Diff(want, f.Categories); diff != "" {
		t.Error(diff)
	}
	pages, links := 0, 0
	for _, h := range f.Hash {
		pages, links = pages+h.Pages, links+h.Links.Of
	}
	if pages != 5 || links != 6 || f.HashImported != 4 {
		t.Errorf("by hash: %d pages, %d links, %d imported", pages, links, f.HashImported)
	}
	var c TopicCheck
	c.add(&crawledPage{keeper: 0, fetchers: 0b10}, 0b01, 1)
	if c.Extra != 1 || c.Astray != 1 {
		t.Errorf("a page without a link at its agent: %+v", c)
	}
	if _, err := (&topicPages{names: x.names, agents: 1}).figures(); !errors.Is(err, ErrTopicCrawl) {
		t.Errorf("no pages: %v", err)
	}
}

// TestTopicCrawlOfMadeUpTexts: the whole experiment on texts whose words name their category. Its figures agree with
// each other, and an earlier run gives the same files again. It asserts no figure that depends on the order of fetches.
func TestTopicCrawlOfMadeUpTexts(t *testing.T) {
	testtier.OnlySoak(t, "crawls with processes take half a minute")
	dir := t.TempDir()
	if _, err := (&TopicCrawl{Texts: dir}).Run(context.Background(),
		(&Trial{Quick: true, Screen: io.Discard}).with(dir)); !errors.Is(err, ErrNoTexts) {
		t.Errorf("no texts: %v", err)
	}
	trial := buildTrial(t)
	madeUpTexts(t, dir)
	x := &TopicCrawl{Texts: dir, Pages: 600, Depth: 3}
	webs, err := x.run(context.Background(), trial.with(t.TempDir()))
	if err != nil {
		t.Fatalf("%v\n%s", err, trial.Screen)
	}
	text := rendered(t, x.result(webs))
	for _, want := range []string{"## Figure 4: pages kept and imported, encyclopedia",
		"## Figure 7", "16 parts by hash"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	for _, w := range webs {
		c := w.Check
		if c.Equal+c.Spared+c.Undone+c.Extra != c.Kept || c.Kept == 0 || w.Accuracy.Accuracy() < 1 ||
			w.Depth == 0 && int64(c.Kept) != w.Reachable {
			t.Errorf("%s: %+v, accuracy %v, %d reachable", w.Name, c, w.Accuracy, w.Reachable)
		}
		kept, links, hash := 0, 0, 0
		for _, k := range w.Categories {
			kept, links = kept+k.Retained+k.Imported, links+k.Links.Right
		}
		for _, h := range w.Hash {
			hash += h.Pages
		}
		sum := func(pages []int) (n int) {
			for _, p := range pages {
				n += p
			}
			return n
		}
		if kept != c.Kept || hash != c.Kept || links != w.Truth.Right || sum(w.ByCrawlers) != c.Kept ||
			sum(w.Logged) != c.Kept {
			t.Errorf("%s: %d kept, %d by hash, %d links within; %+v", w.Name, kept, hash, links, w.TopicFigures)
		}
		if len(w.Costs) != len(topicWays) || w.Costs[0].ByCall["pages"] == 0 || w.Costs[1].ByCall["pages"] == 0 ||
			w.Costs[2].Moved != 0 || w.Costs[2].Sent == 0 {
			t.Errorf("%s: %+v", w.Name, w.Costs)
		}
	}
}
