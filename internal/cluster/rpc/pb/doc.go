// Package pb answers: what do the calls between agents, and those to coordinators, look like on the wire?
//
// All files except this one and generate.go are generated from the .proto files: run go generate. Package rpc
// serves and makes the calls, and the package of each feature checks its messages.
package pb

//go:generate go run -tags generate generate.go messages
