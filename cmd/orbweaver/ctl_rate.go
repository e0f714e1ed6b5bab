package main

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// rateLines says which limits the agents know: that of the crawl, then those of domains.
func rateLines(agents []*pb.AgentStatus) string {
	var subjects []string
	lines := map[string][]string{} // by what they are about
	by := map[string][]string{}    // agents, by line
	add := func(subject, limit, schedule, agent string) {
		line := subject + ": " + inCell(limit)
		if schedule != limit {
			line += " now, by " + inCell(schedule)
		}
		if lines[subject] == nil {
			subjects = append(subjects, subject)
		}
		if by[line] == nil {
			lines[subject] = append(lines[subject], line)
		}
		by[line] = append(by[line], inCell(agent))
	}
	for _, a := range agents {
		if s := a.GetRate(); s != nil {
			add("rate", s.Limit, s.Schedule, a.Agent)
		}
	}
	for _, a := range agents {
		for _, d := range a.GetDomainRates() {
			add("rate of "+inCell(d.Domain), d.Limit, d.Schedule, a.Agent)
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
