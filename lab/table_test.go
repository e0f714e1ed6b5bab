package lab

import (
	"bytes"
	"encoding/csv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func sample() *Table {
	t := &Table{Columns: []Column{{Name: "web"}, {Name: "pages/s"}, {Name: "CPU", Unit: "µs", Digits: 1},
		{Name: "time", Unit: "s", Digits: 2}, {Name: "share", Unit: "%"}}}
	t.Add("identity | plain", int64(1234567), 84250*time.Nanosecond, 1500*time.Millisecond, 99.6)
	t.Add("größer", 12, nil, time.Duration(0), 0.0)
	t.Add("short")
	return t
}

func TestMarkdown(t *testing.T) {
	want := `| web               |   pages/s | CPU (µs) | time (s) | share (%) |
| ----------------- | --------: | -------: | -------: | --------: |
| identity \| plain | 1,234,567 |     84.2 |     1.50 |       100 |
| größer            |        12 |          |     0.00 |         0 |
| short             |           |          |          |           |
`
	if d := cmp.Diff(want, sample().Markdown()); d != "" {
		t.Error(d)
	}
}

func TestText(t *testing.T) {
	want := `web                 pages/s  CPU (µs)  time (s)  share (%)
────────────────  ─────────  ────────  ────────  ─────────
identity | plain  1,234,567      84.2      1.50        100
größer                   12                0.00          0
short
`
	if d := cmp.Diff(want, sample().Text()); d != "" {
		t.Error(d)
	}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, sample().CSV(&b))
	got := must.Get(csv.NewReader(&b).ReadAll())(t)
	want := [][]string{
		{"web", "pages_per_s", "cpu_us", "time_s", "share_percent"},
		{"identity | plain", "1234567", "84.25", "1.5", "99.6"},
		{"größer", "12", "", "0", "0"},
		{"short", "", "", "", ""},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
