package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestFocusedOfMadeUpTexts: the whole experiment on texts whose words name their category. The bound and the crawls
// fetch as many pages as they should, and the classifier is always right. How many of them are of the topic depends on
// the order in which answers arrive, so the test asserts nothing about it.
func TestFocusedOfMadeUpTexts(t *testing.T) {
	dir := t.TempDir()
	trial := (&Trial{Quick: true, Seed: 1, Screen: io.Discard}).with(t.TempDir())
	if _, err := (&Focused{Texts: dir}).Run(context.Background(), trial); !errors.Is(err, ErrNoTexts) {
		t.Errorf("no texts: %v", err)
	}
	madeUpTexts(t, dir)
	x := &Focused{Texts: dir, Pages: 400, Fetched: 60}
	r, err := x.Run(context.Background(), trial)
	must.Do(t, err)
	crawls, err := subset{d: r.Rows}.keys("web", "order", "draw")
	if want := 5 * focusedDraws * (len(focusedOrders) + 1); err != nil || len(crawls) != want {
		t.Errorf("%d crawls, want %d; %v", len(crawls), want, err)
	}
	holds(t, r, `min(harvest_rate) >= 0`, `max(harvest_rate) <= 1`, `min(web_pages) > 0`, `size(accuracy_of) == 5`,
		`at(min(harvest_rate), "web", "generated", "order", "bound", "first", 6) == 1`)
	text := rendered(t, r)
	if n := strings.Count(text, "\n## "); n != 10 {
		t.Errorf("%d headings:\n%s", n, text)
	}
}

// madeUpTexts writes texts whose words name their category to dir, as the experiments read them.
func madeUpTexts(t *testing.T, dir string) {
	t.Helper()
	words := map[string]string{"SCIENCE": "planet atom ", "SEA": "ship harbour ", "AIR": "plane airport "}
	var odp, wiki []labelled
	for i := range 60 {
		split := []string{"train", "test"}[i%2]
		category := []string{"SCIENCE", "SEA", "AIR"}[i/2%3]
		text := strings.Repeat(words[category]+"the of and ", 20)
		odp = append(odp, labelled{Category: category, Split: split, Text: text})
		topic := category[:1] + strings.ToLower(category[1:])
		wiki = append(wiki, labelled{ID: i, Title: fmt.Sprintf("%s %d", words[category], i), Split: split,
			Topics: []string{topic}, Links: []int{(i + 1) % 60, (i + 6) % 60, (i + 12) % 60}, Text: text})
	}
	gzCopies(t, filepath.Join(dir, "odp.jsonl.gz"), odp, 4)
	gzCopies(t, filepath.Join(dir, "wikispeedia.jsonl.gz"), wiki, 4)
}
