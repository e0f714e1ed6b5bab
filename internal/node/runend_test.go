package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A run has ended when its last event says so and its summary is no older.
func TestEnded(t *testing.T) {
	const at = "2026-01-02T03:04:05.000Z"
	last := must.Get(time.Parse(time.RFC3339, at))(t)
	const stopped = `{"time":"` + at + `","event":"stopped","reason":"page-limit","pages":3}` + "\n"
	const began = `{"time":"` + at + `","event":"resumed","pid":3}` + "\n"
	const none = -time.Second
	for _, tt := range []struct {
		name, events string
		summary      time.Duration // its age after the last event; none: there is no summary
		want         crawl.Stop
	}{
		{"no crawl", "", none, ""},
		{"ended", began + stopped, 0, "page-limit"},
		{"ended, the reports took a while", stopped, time.Minute, "page-limit"},
		{"killed before the first report", began + stopped, none, ""},
		{"under way, with the summary of an earlier run", stopped + began, time.Hour, ""},
		{"the summary of an earlier run", stopped, -time.Hour, ""},
		{"a line that is cut off", began + stopped[:40], 0, ""},
		{"no line", "\n", 0, ""},
	} {
		dir := t.TempDir()
		events, summary := filepath.Join(dir, "logs", "events.jsonl"), filepath.Join(dir, "reports", "summary.json")
		err := errors.Join(os.Mkdir(filepath.Dir(events), 0o755), os.Mkdir(filepath.Dir(summary), 0o755))
		if tt.events != "" {
			err = errors.Join(err, os.WriteFile(events, []byte(tt.events), 0o644))
		}
		if tt.summary != none {
			err = errors.Join(err, os.WriteFile(summary, []byte("{}"), 0o644),
				os.Chtimes(summary, time.Time{}, last.Add(tt.summary)))
		}
		must.Do(t, err)
		if got, err := node.Ended(dir); got != (node.End{Reason: tt.want}) || err != nil {
			t.Errorf("%s: got %v, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}
