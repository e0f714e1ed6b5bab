package report

// Lost tells of archives that were lost with other agents.
type Lost struct {
	Listed int64 `json:"listed_urls"` // URLs on this agent's lists of lost archives: they wait to be fetched again
}

// Refetched returns the number of pages of lost archives that were fetched again.
func (t *Tally) Refetched() int64 { return t.n.refetched }

// ArchiveCopies counts the archive files that are copied to other agents.
type ArchiveCopies struct {
	Keeper    string `json:"keeper"`  // the agent that gets the copies of this agent's files; empty: there is none
	Copied    int64  `json:"copied"`  // finished files of this agent that the keeper has
	Waiting   int64  `json:"waiting"` // finished files of this agent that the keeper does not have
	Failing   bool   `json:"failing"` // the last attempt to copy a file failed
	Held      int64  `json:"held"`    // copies of other agents' files here
	HeldBytes int64  `json:"held_bytes"`
}
