package report

// Lost tells of archives that were lost with other agents.
type Lost struct {
	Listed int64 `json:"listed_urls"` // URLs on this agent's lists of lost archives: they wait to be fetched again
}

// Refetched returns the number of pages of lost archives that were fetched again.
func (t *Tally) Refetched() int64 { return t.n.refetched }
