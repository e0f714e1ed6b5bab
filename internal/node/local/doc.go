// Package local answers: what does this agent answer to its operators?
//
//	Operator of any agent -> operate.Local -> an owner here -> the crawl, the archive, the logs
//
// Each part of operate.Local has an owner: Self, HostCommands, Seeds, Applications, Archive, Queue, Views. An owner
// gets from its agent what it needs, and nothing else of it.
package local
