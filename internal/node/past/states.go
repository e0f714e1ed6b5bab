package past

import "github.com/orbweaver/orbweaver/internal/node/saving"

// A Keeper saves the states of an agent in the store of its segments, in a Series. States are those that other agents
// have saved.
type (
	Keeper = saving.Keeper
	Series = saving.Series
	States = saving.States
)
