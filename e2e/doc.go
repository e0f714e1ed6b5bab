// Package e2e answers: does the program as a whole keep its guarantees?
//
// Its tests build the binary, serve it a web, run it as a process, and kill it. They compare the
// result with the web's own log and with an independent walk. No package imports this one.
//
// A test belongs here if it needs what a simulation does not have: the binary and its exit codes,
// signals, kill -9, SIGSTOP, a full disk, a flood of connections, packets on a wire, the commands
// that documents show, the real web, and other programs that read our archives. Whole clusters
// under faults are simulated in internal/testkit/sim: TestNamedStories has the guarantees, and
// TestKnown the bugs that were found.
//
// Most tests run at the same time, up to a limit of load (see weighs). So they wait for conditions
// and not for times. Tests in network namespaces, and tests that measure, run alone.
package e2e
