package lab

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestFetchedPages: pages count in the order of their requests. Other responses, robots.txt and pages of other agents
// do not count.
func TestFetchedPages(t *testing.T) {
	line := func(code, size, path, start, notes string) string {
		return fmt.Sprintf("2026-11-27T01:00:00.000Z %s %s http://a.example/ %s - text/html #001 %s+5 sha1:A "+
			"a.example %s\n", code, size, path, start, notes)
	}
	var logs []string
	for i, text := range []string{
		line("200", "100", "-", "20261127010000300", "-") +
			line("200", "30", "P", "20261127010000100", "-") +
			line("404", "7", "L", "20261127010000150", "-") +
			line("200", "200", "L", "20261127010000100", "exported") +
			line("200", "200", "L", "20261127010000100", "imported:a2"),
		line("200", "400", "L", "20261127010000200", "a,exported"),
	} {
		name := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, name)
	}
	all, err := fetchedPages(logs)
	if err != nil {
		t.Fatal(err)
	}
	want := []fetchedPage{{"20261127010000100", 200, true}, {"20261127010000200", 400, true},
		{"20261127010000300", 100, false}}
	if !slices.Equal(all, want) {
		t.Errorf("got %+v, want %+v", all, want)
	}
	many := slices.Repeat([]fetchedPage{{"1", 100, true}, {"2", 50, false}}, 50)
	points := topicPoints(many, 100)
	if len(points) != topicSteps || points[0] != (TopicPoint{10, 0.5, 0.5, 50}) || points[9].Pages != 100 {
		t.Errorf("points %+v", points)
	}
	if _, err := fetchedPages([]string{filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a log that is missing is no error")
	}
}

// TestFocusedTopicOfMadeUpTexts: the whole experiment on texts whose words name their category. How many pages stay
// depends on the order in which answers arrive, so the test asserts nothing about it.
func TestFocusedTopicOfMadeUpTexts(t *testing.T) {
	testtier.OnlySoak(t, "20 crawls with processes take a minute")
	dir := t.TempDir()
	madeUpTexts(t, dir)
	trial := (&Trial{Quick: true, Seed: 1, Screen: io.Discard}).with(t.TempDir())
	r, err := (&FocusedTopic{Texts: dir, Pages: 400, Fetched: 40}).Run(context.Background(), trial)
	if err != nil {
		t.Fatal(err)
	}
	crawls := r.Figures["crawls"].([]OwnTopicCrawl)
	if want := 2 * 2 * focusedDraws; len(crawls) != want || len(r.Data.Rows) != want*topicSteps ||
		len(r.Figure.Panels) != 4 || len(r.Sections) != 2 {
		t.Errorf("%d crawls, %d rows, %d panels, %d sections", len(crawls), len(r.Data.Rows), len(r.Figure.Panels),
			len(r.Sections))
	}
	for _, c := range crawls {
		if last := c.Points[len(c.Points)-1]; last.Pages != 40 || math.Abs(last.Kept+last.Sent-1) > 1e-9 {
			t.Errorf("%+v", c)
		}
	}
}
