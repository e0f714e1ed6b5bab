package readout

import (
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

// sparableOfHosts are the columns that a narrow table of hosts goes without, the first one first.
var sparableOfHosts = []string{"DENIED", "LATENCY", "URLS", "AT LEAST", "RECEIVED"}

// Hosts returns hosts as a table. If it is wider than a narrow terminal of so many columns, its numbers become short,
// as 1.2M. If it is still too wide, it goes without some columns, and at last without the ends of long names.
func Hosts(r *pb.HostsResponse, columns int, narrow bool) string {
	if len(r.Hosts) == 0 {
		return "No host.\n"
	}
	rows := rowsOfHosts(r, humanize.Comma)
	narrow = narrow && !fits(rows, columns)
	if narrow {
		rows = rowsOfHosts(r, short)
	}
	for _, name := range sparableOfHosts {
		if narrow && !fits(rows, columns) {
			rows = without(rows, name)
		}
	}
	if narrow && !fits(rows, columns) {
		for _, row := range rows {
			row[0], row[1] = Shorten(row[0], nameMost), Shorten(row[1], nameMost/2)
		}
	}
	return Table(rows, append([]string{"QUEUED", "PAGES", "ERRORS"}, sparableOfHosts...)...)
}

// rowsOfHosts returns the rows of the table. number writes counts.
func rowsOfHosts(r *pb.HostsResponse, number func(int64) string) [][]string {
	rows := [][]string{{"HOST", "AGENT", "STATE", "QUEUED", "AT LEAST", "PAGES", "URLS", "ERRORS", "DENIED", "RECEIVED",
		"LATENCY"}}
	for _, h := range r.Hosts {
		latency, least := "-", "-"
		if h.LeastS > 0 {
			least = report.Span(time.Duration(h.LeastS * float64(time.Second)))
		}
		if h.LatencyS > 0 {
			latency = took(h.LatencyS)
		}
		rows = append(rows, []string{Cell(h.Host), Cell(h.Agent), Cell(h.State),
			number(h.Queued), least, number(h.Pages), number(h.UrlsFinished), number(h.Errors), number(h.RobotsDenied),
			humanize.Bytes(uint64(max(h.Bytes, 0))), latency})
	}
	return withoutAgent(rows)
}

// Log returns lines of the log as a table.
func Log(r *pb.LogResponse) string {
	if len(r.Lines) == 0 {
		return "No line.\n"
	}
	rows := [][]string{{"TIME", "AGENT", "CODE", "SIZE", "TOOK", "TYPE", "URL"}}
	for _, l := range r.Lines {
		size := "-"
		if l.Size >= 0 {
			size = humanize.Bytes(uint64(l.Size))
		}
		rows = append(rows, []string{l.Ts.AsTime().Format("15:04:05.000"), Cell(l.Agent), fmt.Sprint(l.Status),
			size, took(l.TookS), Cell(l.Mime), Shorten(report.OneLine(l.Url), 4*CellMost)})
	}
	return Table(withoutAgent(rows), "CODE", "SIZE", "TOOK")
}

// took returns a number of seconds as people write it.
func took(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if 0 < d && d < time.Millisecond {
		return "<1ms"
	}
	return d.Round(time.Millisecond).String()
}

// withoutAgent removes the column of the agents' names, the second one, if all are empty.
func withoutAgent(rows [][]string) [][]string {
	if slices.ContainsFunc(rows[1:], func(row []string) bool { return row[1] != "" }) {
		return rows
	}
	return without(rows, "AGENT")
}
