package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
)

// A run has ended when its last event says so and its summary is no older.
func TestEnded(t *testing.T) {
	const at = "2026-01-02T03:04:05.000Z"
	stopped := `{"time":"` + at + `","event":"stopped","reason":"page-limit","pages":3}` + "\n"
	began := `{"time":"` + at + `","event":"resumed","pid":3}` + "\n"
	for _, tt := range []struct {
		name, events string
		summary      time.Duration // its age after the last event; negative: there is none
		want         crawl.Stop
	}{
		{"no crawl", "", -1, ""},
		{"ended", began + stopped, 0, "page-limit"},
		{"ended, the reports took a while", stopped, time.Minute, "page-limit"},
		{"killed before the first report", began + stopped, -1, ""},
		{"under way, with the summary of an earlier run", stopped + began, time.Hour, ""},
		{"a line that is cut off", began + stopped[:40], 0, ""},
		{"no line", "\n", 0, ""},
	} {
		dir := t.TempDir()
		write := func(name, text string) string {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		}
		if tt.events != "" {
			write("logs/events.jsonl", tt.events)
		}
		if tt.summary >= 0 {
			path := write("reports/summary.json", "{}")
			last, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, last.Add(tt.summary)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := Ended(dir); got != (End{Reason: tt.want}) || err != nil {
			t.Errorf("%s: got %v, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	// The summary of an earlier run, whose events are older than the last one.
	dir := t.TempDir()
	for _, d := range []string{"logs", "reports"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "logs", "events.jsonl"), []byte(stopped), 0o644); err != nil {
		t.Fatal(err)
	}
	summary := filepath.Join(dir, "reports", "summary.json")
	if err := os.WriteFile(summary, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(summary, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if got, err := Ended(dir); got != (End{}) || err != nil {
		t.Errorf("an old summary: got %v, %v", got, err)
	}
}
