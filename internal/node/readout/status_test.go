package readout

import (
	"math"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// large is the status of a large crawl, with agents of every state.
func large(t *testing.T) *pb.StatusResponse {
	totals := &pb.Totals{Pages: 123456789, Bytes: 9e12, UrlsQueued: 45678901, UrlsUnique: 234567890, PagesPerS: 123.4,
		OpenRequests: 1234, Errors: 123456}
	at := &timestamppb.Timestamp{Seconds: 1767366245}
	disk := must.Get(structpb.NewStruct(map[string]any{
		"disk": map[string]any{"free_bytes": 5e9, "size_bytes": 1e11}}))(t)
	return &pb.StatusResponse{
		Totals: totals,
		Agents: []*pb.AgentStatus{
			{Agent: "a1", State: "crawling", Totals: totals, Status: disk},
			{Agent: "archive-of-the-university-of-somewhere-10", State: "leaving", Totals: totals,
				WaitsFor: "programs: 12 pages of application news are to be collected before 2026-01-02 15:04:05Z"},
			{Agent: "a3", State: "silent", Totals: totals,
				WaitsFor: "agent a3 does not answer: no answer in time"},
		},
		Gone: []*pb.GoneAgent{
			{Agent: "a4", State: "stopped", Since: at, Why: "disk low: less was free than --min-free-disk",
				Totals: totals},
			{Agent: "a\x1b[2J5", State: "lost", Since: at, Why: "killed or unreachable"},
		},
		Absent: []string{"a5", "a6"},
	}
}

// The table fits, by short numbers and then with fewer columns, and every agent has its row. Its lines do, too.
func TestStatusFits(t *testing.T) {
	r := large(t)
	for columns, head := range map[int]string{
		200: "AGENT STATE PAGES PAGES/S RECEIVED QUEUED KNOWN OPEN ERRORS",
		88:  "AGENT STATE PAGES PAGES/S RECEIVED QUEUED KNOWN OPEN ERRORS",
		80:  "AGENT STATE PAGES PAGES/S RECEIVED QUEUED KNOWN OPEN ERRORS",
		75:  "AGENT STATE PAGES PAGES/S RECEIVED QUEUED OPEN ERRORS",
		49:  "AGENT STATE PAGES QUEUED ERRORS", 40: "AGENT STATE PAGES QUEUED",
	} {
		lines := strings.Split(strings.TrimSuffix(Status(r, columns, true), "\n"), "\n")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != head {
			t.Errorf("%d columns: %s, want %s", columns, got, head)
		}
		for i, name := range []string{"a1", "archive-of-t", "a3", "a4", "a", "total"} {
			if !strings.HasPrefix(lines[i+1], name) {
				t.Errorf("%d columns: row %d is %q, want that of %s", columns, i, lines[i+1], name)
			}
		}
		for _, line := range lines {
			if columns >= 49 && runewidth.StringWidth(line) > columns || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
	}
	// Without a terminal, the columns are the same at each width.
	if text := Status(r, 80, false); !strings.Contains(text, "KNOWN") || !strings.Contains(text, " 123M ") {
		t.Error(text)
	}
}

// The lines say why an agent has gone, and what others wait for.
func TestStatusLines(t *testing.T) {
	text := Status(large(t), 80, false)
	for _, want := range []string{
		"\na3 silent: agent a3 does not answer: no answer in time\n",
		"\na4 stopped since 2026-01-02 15:04:05Z: disk low: less was free than\n  --min-free-disk\n",
		"lost since 2026-01-02 15:04:05Z: killed or unreachable; its counts\n  are not known\n",
		"waits for programs: 12 pages of\n  application news",
		"\nfree on disk: 5.0 GB of 100 GB at a1\n", "\nnot counted: a5 and a6, which left, stopped or were lost\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1.0k", 9949: "9.9k", 9950: "10k",
		999_499: "999k", 999_500: "1.0M", 1_234_567: "1.2M", 45_678_901: "46M", 7e9: "7.0G", 5e14: "500T",
		-1200: "-1.2k", math.MaxInt64: "9223372T"} {
		if got := short(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
