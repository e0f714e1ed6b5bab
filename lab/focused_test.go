package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
	harvests := r.Figures["harvests"].([]Harvest)
	if want := 3 * focusedDraws * (len(focusedOrders) + 1); len(harvests) != want {
		t.Errorf("%d harvests, want %d", len(harvests), want)
	}
	for _, h := range harvests {
		for n, rate := range h.Rates {
			if rate < 0 || rate > 1 || n > h.Fetched {
				t.Errorf("%+v", h)
			}
		}
		if h.Web == "generated" && h.Order == focusedBound && h.Rates[6] < 1 {
			t.Errorf("the bound: %+v", h)
		}
	}
	for _, w := range r.Figures["webs"].([]map[string]any) {
		if got := fmt.Sprint(w["accuracy"]); !strings.HasPrefix(got, "{") || w["pages"].(int64) == 0 {
			t.Errorf("%v", w)
		}
	}
	if len(r.Sections) != 5 || len(r.Figure.Panels) != 3 || len(r.Data.Rows) != 4*len(harvests) {
		t.Errorf("%d sections, %d panels, %d rows", len(r.Sections), len(r.Figure.Panels), len(r.Data.Rows))
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
