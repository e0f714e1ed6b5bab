package past

import "github.com/orbweaver/orbweaver/internal/node/saving"

// A Keeper saves the states of an agent in the store of its segments, in a Series. States are those that other agents
// have saved. Told tells a person what the Keeper waits for.
type (
	Keeper = saving.Keeper
	Series = saving.Series
	States = saving.States
	Told   = saving.Told
)
