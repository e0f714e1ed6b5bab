// Package pb answers: what do the calls between agents, and those to coordinators, look like on the wire?
//
// All files except this one and generate.go are generated from exchange.proto and coordination.proto:
// run go generate. Only package rpc uses this package.
package pb

//go:generate go run -tags generate generate.go
