package readout

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// The table of hosts fits into a terminal, down to 75 columns. Without a terminal it has all columns and names.
func TestHostsWidth(t *testing.T) {
	r := &pb.HostsResponse{Hosts: []*pb.Host{
		{Host: "a.example", Agent: "a1", State: "ready", Queued: 1_234_567, Pages: 2_345, UrlsFinished: 1_234_567,
			Errors: 2_345, RobotsDenied: 12_345, Bytes: 678_000_000, LatencyS: 0.1234, LeastS: 10380},
		{Host: strings.Repeat("long-", 12) + "example.org", Agent: "an-agent-with-a-long-name", State: "finished"},
	}}
	for columns := 75; columns <= 200; columns++ {
		text := Hosts(r, columns, true)
		for line := range strings.Lines(text) {
			if n := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%d columns: %d: %q", columns, n, line)
			}
		}
		if !strings.Contains(text, "QUEUED") || !strings.Contains(text, "ERRORS") {
			t.Errorf("%d columns:\n%s", columns, text)
		}
	}
	if text := Hosts(r, 80, false); !strings.Contains(text, "1,234,567") || !strings.Contains(text, "example.org ") {
		t.Error(text)
	}
	for _, h := range r.Hosts {
		h.Agent = ""
	}
	r.Hosts = r.Hosts[:1]
	if text := Hosts(r, 79, true); strings.Contains(text, "AGENT") || !strings.Contains(text, "URLS") {
		t.Error(text)
	}
}
