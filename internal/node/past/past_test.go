package past

import (
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// Only a directory that shows a whole crawl without a page and without an order is barren.
func TestBarren(t *testing.T) {
	const started = `{"type":"event","time":"2026-01-01T00:00:00.000Z","event":"started","pid":1}` + "\n"
	const robots = "2026-01-01T00:00:00.000Z   404        0 http://a.example/robots.txt P http://a.example/ - #1 - -\n"
	const page = "2026-01-01T00:00:00.000Z   200        0 http://a.example/ - - text/html #1 - - a -\n"
	const segmentFile = "crawl-data/web/segments/s/robotstxt/x.warc.gz"
	for _, c := range []struct {
		name  string
		ended bool
		files map[string]string // besides those of the crawl; "-": without this one
		want  bool
	}{
		{name: "killed", want: true},
		{name: "ended", ended: true, files: map[string]string{"reports/summary.json": `{"pages":0}`}, want: true},
		{name: "ended, but without a summary", ended: true},
		{name: "a summary with pages", files: map[string]string{"reports/summary.json": `{"pages":1}`}},
		{name: "a summary with files", files: map[string]string{"reports/summary.json": `{"files":1}`}},
		{name: "a damaged summary", files: map[string]string{"reports/summary.json": `{`}},
		{name: "in a cluster", files: map[string]string{"state/outbox/x": ""}},
		{name: "a page in the log", files: map[string]string{"logs/crawl.log": robots + page}},
		{name: "a damaged log", files: map[string]string{"logs/crawl.log": robots + "x\n"}},
		{name: "no log", files: map[string]string{"logs/crawl.log": "-"}},
		{name: "no events", files: map[string]string{"logs/events.jsonl": "-"}},
		{name: "events of a later run", files: map[string]string{"logs/events.jsonl": `{"event":"resumed"}`}},
		{name: "an order", files: map[string]string{"logs/events.jsonl": started + `{"event":"order","verb":"block"}`}},
		{name: "a command", files: map[string]string{"logs/events.jsonl": started + `{"event":"command"}`}},
		{name: "a log that was rotated", files: map[string]string{"logs/crawl.log.1": ""}},
		{name: "an archive file with another name", files: map[string]string{"archive/x.warc.gz.bak": ""}},
		{name: "an archive file that cannot be read", files: map[string]string{"archive/x.warc.gz": "damaged"}},
		{name: "a file in a segment", files: map[string]string{segmentFile: ""}, want: true},
		{name: "a file in a segment that cannot be read", files: map[string]string{segmentFile: "damaged"}},
		{name: "an archive file that was moved away", files: map[string]string{"state/index/x.cdxj": ""}},
	} {
		mem := testdisk.NewMem()
		files := map[string]string{"logs/crawl.log": robots, "logs/events.jsonl": started}
		for name, text := range c.files {
			files[name] = text
		}
		for _, dir := range []string{"archive", "logs", "reports", "state/index", "state/outbox"} {
			if _, has := c.files["state/outbox/x"]; has || dir != "state/outbox" {
				must.Do(t, mem.MkdirAll(filepath.Join("/crawl", dir), 0o755))
			}
		}
		for name, text := range files {
			if text != "-" {
				must.Do(t, mem.MkdirAll(filepath.Dir(filepath.Join("/crawl", name)), 0o755))
				must.Do(t, disk.WriteFile(mem, filepath.Join("/crawl", name), []byte(text)))
			}
		}
		if got := Barren(mem, "/crawl", c.ended); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
