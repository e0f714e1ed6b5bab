// Package pb answers: what do the calls of operators look like on the wire?
//
// All files except this one are generated from the .proto files: run go generate.
package pb

//go:generate go run -tags generate ../../../cluster/rpc/pb/generate.go answer.proto watch.proto operator.proto
