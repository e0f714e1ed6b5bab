package assignment

// A How says how coordinators assign new hosts.
type How uint8

// The values.
const (
	// LookedUp hosts go to any agent, if they have an address.
	LookedUp How = iota
	// Unchecked hosts go to any agent.
	Unchecked
	// Kept hosts go to the agent that asks, unchecked. It has links of them since before these coordinators began. If
	// several agents have, the first one gets the host.
	Kept
)
