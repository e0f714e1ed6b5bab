// Package cost answers: how fast is a cluster of n agents, and what does it need?
//
//	constants (the paper's, or fitted to runs) -> Model -> speed of n agents -> Plan -> days, disk, memory, money
//
// The model is that of section 5 of the paper on FC2L-UDCbot, a crawler with a coordinator. One machine alone fetches
// Single pages a second. An agent among n loses some of them to each kind of Overhead. In the paper a kind is linear in
// the number of agents and in the logarithm of the number of pages; ours may also depend on the share of the work that
// concerns other agents. Where an overhead grows with n, the cluster's speed has a peak: from some number of agents on,
// another one costs the others more than it adds.
//
// Invariants: the package reads no file and no clock, and all results depend only on the arguments. Pages and bytes are
// float64, because plans have more of them than matter to the last one.
package cost
