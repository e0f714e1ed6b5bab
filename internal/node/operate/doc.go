// Package operate answers: what may an operator ask of a crawl, and which agents carry it out?
//
// An Operator serves the calls of operator.proto (package pb) for the whole cluster, at each of its agents:
//
//	a question, or a command for one host -> all agents at once -> one answer from each
//	an order (pause)                      -> the set of orders, durable here -> all agents
//
// A command for a host has an effect only at the agents that crawl the host. An agent that does not answer in ten
// seconds is named in the answer. Orders reach it when it is back (package orders).
//
// Calls in progress end with their callers. An Operator has no goroutine of its own, and may be used concurrently.
package operate
