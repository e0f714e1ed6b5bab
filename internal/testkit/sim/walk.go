package sim

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// openWalk opens the strategy of a story whose plan has a Walk.
func (s *story) openWalk(at strategy.Place) (visit.Strategy, error) {
	return strategy.OpenWalk(at, strategy.WalkConfig{Walkers: 12, Steps: s.plan.Walk, Seed: s.plan.Seed})
}

// addVisits adds the visits in the actor's report to those of others. A nil visits means that there
// is no report.
func (a *actor) addVisits(visits map[string]int) (wrong []string) {
	if visits == nil {
		return nil
	}
	b, err := disk.ReadFile(a.mem, crawlDir+"/reports/walk.csv", 1<<30)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", a.name, err)}
	}
	rows, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
	if err != nil || len(rows) == 0 {
		return []string{fmt.Sprintf("%s: walk.csv has %d lines: %v", a.name, len(rows), err)}
	}
	for _, row := range rows[1:] {
		n, err := strconv.Atoi(row[1])
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: walk.csv: %v", a.name, err))
		}
		visits[row[0]] += n
	}
	return wrong
}
