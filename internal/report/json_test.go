package report

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestSameKeys: summary.json and the lines of progress name the same thing alike. With equal counts, each key that both
// have has the same value. Each other key stands in the list of what only one of them has.
func TestSameKeys(t *testing.T) {
	tally := sampleTally()
	tally.Skipped("depth")
	took := 90 * time.Second
	s := tally.Summary(took, "finished")
	s.Agent, s.Queued, s.Exchange = "a1", 4, &Exchange{Links: 3}
	b, err := json.Marshal(s)
	must.Do(t, err)
	var summary, progress map[string]any
	must.Do(t, json.Unmarshal(b, &summary))
	var out strings.Builder
	p := NewProgress(&out, JSON, nil)
	p.Agent = s.Agent
	p.Show(Snapshot{
		Elapsed: took, Pages: tally.Pages(), Fetched: tally.Fetched(), Bytes: tally.Bytes(), Queued: s.Queued,
		Unique: tally.Unique(), Denied: tally.Denied(), Duplicates: tally.Duplicates(), Skipped: tally.SkippedBy(),
		Errors: tally.Errors(), Revisits: 1, Unchanged: 1, NextIn: time.Second, RetryIn: time.Second, Memory: 1,
		Exchange: s.Exchange, Disk: disk.Space{Free: 1, Size: 2},
		LastURL: "http://a.example/", TimeLimit: time.Hour, WaitingFor: "x", Agents: []string{"a1"},
	}, at)
	must.Do(t, json.Unmarshal([]byte(out.String()), &progress))
	summary["revisits"], summary["unchanged"] = 1.0, 1.0 // progress leaves them out at 0
	for k, v := range progress {
		if want, both := summary[k]; both && k != "type" && !reflect.DeepEqual(v, want) {
			t.Errorf("%s: progress has %v, the summary %v", k, v, want)
		}
	}
	if progress["type"] != "progress" || summary["type"] != "summary" {
		t.Errorf("types %v and %v", progress["type"], summary["type"])
	}
	only := func(a, b map[string]any) (keys []string) {
		for _, k := range slices.Sorted(maps.Keys(a)) {
			if _, ok := b[k]; !ok {
				keys = append(keys, k)
			}
		}
		return keys
	}
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"progress", only(progress, summary), []string{"agents", "bytes_per_s", "disk_free_bytes", "eta_s",
			"hosts_paused", "hosts_ready",
			"hosts_resting", "last_url", "limit", "memory_bytes", "next_retry_s", "next_visit_s", "open_requests",
			"pages_per_s", "resolving", "retrying", "state", "time", "waiting_for"}},
		{"summary", only(summary, progress), []string{"changed", "failing", "hosts",
			"hosts_with_pages", "near_duplicates", "not_kept",
			"peak_memory_bytes", "refetched", "responses_by_status", "retries",
			"robots_txt", "started", "stop_reason", "truncated", "urls_discovered", "urls_finished",
			"urls_sent"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("only the %s has\n%q, want\n%q", c.name, c.got, c.want)
		}
	}
}
