// Package pb answers: what do the calls of operators look like on the wire?
//
// All files except this one are generated from operator.proto and the files that it imports: run go generate.
package pb

//go:generate go run -tags generate ../../../cluster/rpc/pb/generate.go rate.proto operator.proto
