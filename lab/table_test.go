package lab

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() *Table {
	t := &Table{Columns: []Column{{Name: "web"}, {Name: "pages/s"}, {Name: "CPU (µs)", Digits: 1},
		{Name: "share (%)"}}}
	t.Add("identity | plain", 1234567.0, 84.25, 99.6)
	t.Add("größer", 12.0, nil, shownNumber{0.125, 2})
	t.Add("short")
	return t
}

func TestMarkdown(t *testing.T) {
	want := `| web               |   pages/s | CPU (µs) | share (%) |
| ----------------- | --------: | -------: | --------: |
| identity \| plain | 1,234,567 |     84.2 |       100 |
| größer            |        12 |          |      0.13 |
| short             |           |          |           |
`
	if d := cmp.Diff(want, sample().Markdown()); d != "" {
		t.Error(d)
	}
}

func TestText(t *testing.T) {
	want := `web                 pages/s  CPU (µs)  share (%)
────────────────  ─────────  ────────  ─────────
identity | plain  1,234,567      84.2        100
größer                   12                 0.13
short
`
	if d := cmp.Diff(want, sample().Text()); d != "" {
		t.Error(d)
	}
}
