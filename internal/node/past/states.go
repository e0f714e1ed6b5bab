package past

import "github.com/orbweaver/orbweaver/internal/node/saving"

// A Keeper saves the states of an agent in the store of its segments, in a Series. States are those that other agents
// have saved. Told tells a person what the Keeper waits for. Orphans are states that no agent continues, and an End
// says how a run ended.
type (
	Keeper  = saving.Keeper
	Series  = saving.Series
	States  = saving.States
	Told    = saving.Told
	Orphans = saving.Orphans
	End     = saving.End
)

// AdoptedDir has the directories of agents that this one has adopted.
const AdoptedDir = saving.AdoptedDir

// Origin names the restore from a store that has made a crawl directory.
var Origin = saving.Origin

// NewOrphans returns what looks for states that no agent continues.
var NewOrphans = saving.NewOrphans
