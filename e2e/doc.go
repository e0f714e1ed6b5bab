// Package e2e answers: does the program as a whole keep its promises?
//
// Its tests build the binary, serve it a web, run it as a process, kill it,
// and compare what it did with what the web saw and with an independent walk.
// There is nothing here to import.
//
// A test belongs here if it needs what a simulation does not have: the binary and its
// exit codes, signals, kill -9, SIGSTOP, a disk that is full, a flood of connections, packets
// on a wire, the commands that documents show, the real web, and other people's readers of
// our archives. Whole clusters under faults are simulated: see internal/testkit/sim, where
// TestNamedStories has the promises, and TestKnown the mistakes that were found.
//
// Most tests run beside each other, up to a limit of load (see weighs), so they wait for
// conditions and not for times. Tests in network namespaces, and those that measure, run
// alone.
package e2e
