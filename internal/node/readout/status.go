package readout

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/mattn/go-runewidth"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// sparable are the columns that a narrow table of the status goes without, the first one first.
var sparable = []string{"KNOWN", "OPEN", "PAGES/S", "RECEIVED", "ERRORS", "QUEUED"}

// Status returns a status as a table with a row for each agent, and lines about them, at most columns wide. If the
// table is too wide, its numbers become short, as 1.2M. If it is still too wide and the reader looks at a narrow
// terminal, it goes without some columns. An agent that has gone has a row with its last counts.
func Status(r *pb.StatusResponse, columns int, narrow bool) string {
	rows := statusRows(r, humanize.Comma, nameMost)
	if !fits(rows, columns) {
		rows = statusRows(r, short, nameMost)
	}
	if !fits(rows, columns) {
		rows = statusRows(r, short, nameMost/2)
	}
	for _, name := range sparable {
		if fits(rows, columns) || !narrow {
			break
		}
		rows = without(rows, name)
	}
	var about strings.Builder
	for line := range strings.Lines(agentLines(r) + diskLine(r.Agents) + absentLine(r) + rateLines(r.Agents) +
		lostLine(r.Agents)) {
		about.WriteString(wrapped(line, columns))
	}
	return Table(rows, append([]string{"PAGES"}, sparable...)...) + about.String() + appLines(r.Agents)
}

// statusRows returns the rows of the table. number writes counts. Names have at most so many characters.
func statusRows(r *pb.StatusResponse, number func(int64) string, names int) [][]string {
	rows := [][]string{{"AGENT", "STATE", "PAGES", "PAGES/S", "RECEIVED", "QUEUED", "KNOWN", "OPEN", "ERRORS"}}
	row := func(name, state string, t *pb.Totals) {
		cells := []string{Shorten(Cell(name), names), Cell(state), "-", "-", "-", "-", "-", "-", "-"}
		if t != nil {
			copy(cells[2:], []string{number(t.Pages), fmt.Sprintf("%.1f", t.PagesPerS),
				humanize.Bytes(uint64(max(t.Bytes, 0))), number(t.UrlsQueued), number(t.UrlsUnique),
				number(t.OpenRequests), number(t.Errors)})
		}
		rows = append(rows, cells)
	}
	for _, a := range r.Agents {
		row(a.Agent, a.State, a.Totals)
		if cells := rows[len(rows)-1]; a.State == "silent" {
			cells[3], cells[7] = "-", "-"
		}
	}
	for _, g := range r.Gone {
		row(g.Agent, g.State, g.Totals)
		cells := rows[len(rows)-1]
		cells[3], cells[5], cells[7] = "-", "-", "-" // others have its queue
	}
	if len(r.Agents)+len(r.Gone) > 1 {
		row("total", "", r.Totals)
	}
	if !slices.ContainsFunc(r.Agents, func(a *pb.AgentStatus) bool { return a.Agent != "" }) {
		return without(rows, "AGENT")
	}
	return rows
}

// nameMost bounds the name of an agent in the table, in characters. The lines below have more of it.
const nameMost = 24

// short returns a count as people say it: 999, 12k, 1.2M.
func short(n int64) string {
	x, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if math.Abs(x) < 999.5 {
			break
		}
		x, unit = x/1000, u
	}
	if unit == "" || math.Abs(x) >= 9.95 {
		return fmt.Sprintf("%.0f%s", x, unit)
	}
	return fmt.Sprintf("%.1f%s", x, unit)
}

// fits reports whether a table has at most so many columns.
func fits(rows [][]string, columns int) bool {
	for line := range strings.Lines(Table(rows)) {
		if runewidth.StringWidth(strings.TrimSuffix(line, "\n")) > columns {
			return false
		}
	}
	return true
}

// without removes a column of a table, if it has it.
func without(rows [][]string, name string) [][]string {
	at := slices.Index(rows[0], name)
	if at < 0 {
		return rows
	}
	for i, row := range rows {
		rows[i] = slices.Delete(row, at, at+1)
	}
	return rows
}

// agentLines say what agents wait for, and why others have gone.
func agentLines(r *pb.StatusResponse) string {
	var text strings.Builder
	for _, a := range r.Agents {
		switch {
		case a.WaitsFor == "":
		case a.State == "silent":
			text.WriteString(named(a.Agent, "silent: "+Line(a.WaitsFor)))
		default:
			text.WriteString(named(a.Agent, "waits for "+Line(a.WaitsFor)))
		}
	}
	for _, g := range r.Gone {
		line := fmt.Sprintf("%s since %s: %s", Cell(g.State), g.Since.AsTime().Format("2006-01-02 15:04:05Z"),
			Line(g.Why))
		if g.Totals == nil {
			line += "; its counts are not known"
		}
		text.WriteString(named(g.Agent, line))
	}
	return text.String()
}

// named returns a line about an agent. The only agent of a crawl has no name.
func named(agent, line string) string { return strings.TrimPrefix(Cell(agent)+" "+line+"\n", " ") }

// wrapped returns text in lines of at most so many columns. Those after the first one are indented.
func wrapped(text string, columns int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		n := runewidth.StringWidth(word)
		switch {
		case at > 0 && at+1+n > columns:
			b.WriteString("\n  ")
			at = 2
		case at > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String() + "\n"
}

// diskLine tells how much is free on the disk of the agent that has the least, or is empty.
func diskLine(agents []*pb.AgentStatus) (line string) {
	least := math.Inf(1)
	for _, a := range agents {
		f := a.GetStatus().GetFields()["disk"].GetStructValue().GetFields()
		if free, size := f["free_bytes"].GetNumberValue(), f["size_bytes"].GetNumberValue(); size > 0 && free < least {
			least = free
			line = strings.TrimSuffix(fmt.Sprintf("free on disk: %s of %s at %s", humanize.Bytes(uint64(free)),
				humanize.Bytes(uint64(size)), Cell(a.Agent)), " at ") + "\n"
		}
	}
	return line
}

// absentLine names the agents that have no row, and whose counts are in no total, or is empty.
func absentLine(r *pb.StatusResponse) string {
	absent := slices.DeleteFunc(slices.Clone(r.Absent), func(name string) bool {
		return slices.ContainsFunc(r.Gone, func(g *pb.GoneAgent) bool { return g.Agent == name })
	})
	if len(absent) == 0 {
		return ""
	}
	var names []string
	for _, name := range absent[:min(len(absent), absentMost)] {
		names = append(names, Cell(name))
	}
	if more := len(absent) - absentMost; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("not counted: %s, which left, stopped or were lost\n", english.WordSeries(names, "and"))
}

// absentMost bounds the names of absent agents in a line.
const absentMost = 10

// lostLine tells of archives that were lost with their agents, or is empty.
func lostLine(agents []*pb.AgentStatus) string {
	var again, waiting float64
	for _, a := range agents {
		f := a.GetStatus().GetFields()
		again += f["refetched"].GetNumberValue()
		waiting += f["lost"].GetStructValue().GetFields()["listed_urls"].GetNumberValue()
	}
	if again+waiting == 0 {
		return ""
	}
	return fmt.Sprintf("lost archives: %s pages fetched again, %s URLs on lists\n", humanize.Comma(int64(again)),
		humanize.Comma(int64(waiting)))
}

// rateLines says which limits the agents know: that of the crawl, then those of domains.
func rateLines(agents []*pb.AgentStatus) string {
	var subjects []string
	lines := map[string][]string{} // by what they are about
	by := map[string][]string{}    // agents, by line
	add := func(subject, limit, schedule, agent string) {
		line := subject + ": " + Cell(limit)
		if schedule != limit {
			line += " now, by " + Cell(schedule)
		}
		if lines[subject] == nil {
			subjects = append(subjects, subject)
		}
		if by[line] == nil {
			lines[subject] = append(lines[subject], line)
		}
		by[line] = append(by[line], Cell(agent))
	}
	for _, a := range agents {
		if s := a.GetRate(); s != nil {
			add("rate", s.Limit, s.Schedule, a.Agent)
		}
	}
	for _, a := range agents {
		for _, d := range a.GetDomainRates() {
			add("rate of "+Cell(d.Domain), d.Limit, d.Schedule, a.Agent)
		}
	}
	var text strings.Builder
	for _, subject := range subjects {
		for _, line := range lines[subject] {
			text.WriteString(line)
			if len(lines[subject]) > 1 {
				text.WriteString(" (" + strings.Join(by[line], ", ") + ")")
			}
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// AppRow returns the row of an application in a table. more are the cells after its name.
func AppRow(name string, s *pb.ApplicationState, more ...string) []string {
	held := "no"
	if s.GetHeld() {
		held = "yes"
	}
	return append(append([]string{Cell(name)}, more...), humanize.Comma(s.GetQueued()),
		humanize.Comma(s.GetFetched()), humanize.Comma(s.GetShared()), humanize.Comma(s.GetUnacknowledged()), held)
}

// appLines returns the table of the applications in a status; empty if there are none.
func appLines(agents []*pb.AgentStatus) string {
	var names []string
	states := map[string]*pb.ApplicationState{}
	for _, a := range agents {
		for _, s := range a.GetApplications() {
			sum := states[s.Application]
			if sum == nil {
				sum = new(pb.ApplicationState)
				states[s.Application] = sum
				names = append(names, s.Application)
			}
			verbs.AddState(sum, s.State)
		}
	}
	if len(names) == 0 {
		return ""
	}
	rows := [][]string{{"APPLICATION", "QUEUED", "FETCHED", "SHARED", "PAGES", "HELD"}}
	for _, name := range names {
		rows = append(rows, AppRow(name, states[name]))
	}
	return "\n" + Table(rows, "QUEUED", "FETCHED", "SHARED", "PAGES")
}
