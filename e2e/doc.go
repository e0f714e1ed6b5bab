// Package e2e answers: does the program as a whole keep its promises?
//
// Its tests build the binary, serve it a web, run it as a process, kill it,
// and compare what it did with what the web saw and with an independent walk.
// There is nothing here to import.
package e2e
