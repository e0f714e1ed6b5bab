// Package pb answers: what do the calls of URL Frontier look like on the wire, and the records of its journal on disk?
//
// All files except this one are generated from urlfrontier.proto and state.proto: run go generate.
package pb

//go:generate go run -tags generate ../../cluster/rpc/pb/generate.go urlfrontier.proto state.proto
